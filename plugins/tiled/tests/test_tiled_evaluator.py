"""The contract: reasons and amounts, settings, determinism, pickling."""

from __future__ import annotations

import pickle
from dataclasses import fields
from importlib.resources import files

import numpy as np
import pytest
import yaml
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.layers import DEFAULT_MEAN_INPUT, DEFAULT_MEAN_WEIGHT_SLICE
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import Kernel, count_layers

from cimopt.errors import InputError
from cimopt.types import Layer, Workload
from cimopt.workloads.published import load_published, published_names

QUIRKS = [field.name for field in fields(Quirks)]


def test_weights_that_do_not_fit_give_an_amount_and_no_metrics(base, designs, cnn4, evaluator):
    rows = [base, base | {"router_groups": 1}]
    metrics = evaluator.evaluate(designs(rows), cnn4, "components")
    assert metrics.reason.tolist() == [0, 1]
    assert all(np.isnan(values[1]).all() and np.isfinite(values[0]).all() for values in metrics.values.values())
    vgg16 = 138_344_128
    assert metrics.violations["cells"][1] == pytest.approx(vgg16 / (512 * 128 * 32 * 32) - 1)
    assert metrics.violations["cells"][0] < 0
    assert (metrics.limits["cells"].value[1], metrics.limits["cells"].limit[1]) == (vgg16, 512 * 128 * 32 * 32)
    assert metrics.outcome(1).state == "infeasible"
    assert "fit" in metrics.outcome(1).reason


def test_global_buffer_overflow_gives_an_amount_and_metrics(sram, designs, cnn4, evaluator):
    big = sram | {"xbar_cols": 512, "macros_per_tile": 64, "tiles_per_router": 64, "router_groups": 32}
    metrics = evaluator.evaluate(designs([big | {"glb_mb": 1.0}, big | {"glb_mb": 64.0}]), cnn4)
    over, fits = metrics.violations["glb"]
    assert over > 0 > fits
    assert metrics.ok.all()
    limit = metrics.limits["glb"]
    assert over == pytest.approx(limit.value[0] / (1024 * 1024 * 8) - 1)
    assert metrics.outcome(0).amounts == {"glb": over}


def test_global_buffer_need_by_hand(designs, sram):
    """One 3x3 layer, output width kept in time: inputs C (P - 1 + R) (Q - 1 + S), outputs M P Q, 8 bits each."""
    layer = Layer("one", "conv", 16, 4, (3, 3), out_map=(8, 8))
    row = sram | {"xbar_rows": 256, "xbar_cols": 32, "macros_per_tile": 8, "tiles_per_router": 2, "router_groups": 1}
    metrics = TiledEvaluator().evaluate(designs([row]), [Workload("w", (layer,))])
    assert metrics.limits["glb"].value.item() == 8 * (16 * 10 * 10 + 4 * 8 * 8)


def test_sram_has_no_capacity_limit(sram, designs, cnn4, evaluator):
    tiny = sram | {"xbar_rows": 16, "xbar_cols": 16, "macros_per_tile": 2, "tiles_per_router": 2}
    metrics = evaluator.evaluate(designs([tiny]), cnn4)
    assert metrics.ok.all()
    assert "cells" not in metrics.violations
    assert evaluator.precheck(designs([tiny]), cnn4) == {}


def test_precheck_is_the_capacity_rule(base, designs, cnn4, evaluator):
    some = designs([base | {"router_groups": g, "bits_per_cell": b} for g in (1, 8, 32) for b in (1, 3, 8)])
    expected = evaluator.evaluate(some, cnn4).violations["cells"]
    np.testing.assert_array_equal(evaluator.precheck(some, cnn4)["cells"], expected)


def test_utilization_throughput_and_latency(base, designs, cnn4, evaluator):
    values = evaluator.evaluate(designs([base | {"t_cycle_ns": 10}, base]), cnn4).values
    np.testing.assert_allclose(values["latency_s"], values["cycles"] * np.array([[10e-9], [1e-9]]))
    np.testing.assert_allclose(values["throughput_ips"] * values["latency_s"], 1.0)
    assert ((values["utilization"] > 0) & (values["utilization"] <= 1)).all()


def test_mixed_memories_in_one_batch(base, sram, designs, cnn4, evaluator):
    both = evaluator.evaluate(designs([base, sram]), cnn4, "layers")
    for i, row in enumerate((base, sram)):
        alone = evaluator.evaluate(designs([row]), cnn4, "layers")
        np.testing.assert_array_equal(both.values["energy_j"][i], alone.values["energy_j"][0])
        np.testing.assert_array_equal(
            both.layers["vgg16"].values["energy_j"][i], alone.layers["vgg16"].values["energy_j"][0]
        )
    assert both.violations["cells"][1] == 0


def random_rows(base: dict, n: int) -> list[dict]:
    rng = np.random.default_rng(5)
    choices = {
        "v_op": (0.5, 0.6, 0.85), "bits_per_cell": (4, 8), "xbar_rows": (128, 512), "xbar_cols": (64, 512),
        "router_groups": (2, 16, 32), "glb_mb": (0.5, 8.0), "t_cycle_ns": (1, 4),
    }  # fmt: skip
    return [base | {k: v[rng.integers(len(v))] for k, v in choices.items()} for _ in range(n)]


def test_same_result_in_any_batching_and_after_pickling(base, designs, cnn4):
    some = designs(random_rows(base, 40))
    before = some.genes.copy()
    model = TiledEvaluator()
    whole = model.evaluate(some, cnn4)
    again = pickle.loads(pickle.dumps(model)).evaluate(some, cnn4)
    single = [TiledEvaluator().evaluate(some.take(slice(i, i + 1)), cnn4) for i in range(0, 40, 8)]
    for name, values in whole.values.items():
        np.testing.assert_array_equal(values, again.values[name])
        np.testing.assert_array_equal(values[::8], np.concatenate([m.values[name] for m in single]))
    np.testing.assert_array_equal(some.genes, before)
    assert len(pickle.dumps(model)) < 10_000


def test_other_workloads_in_turn_do_not_mix(sram, designs, cnn4, evaluator):
    one = designs([sram])
    alone = evaluator.evaluate(one, cnn4[:1]).values["energy_j"]
    evaluator.evaluate(one, cnn4)
    np.testing.assert_array_equal(evaluator.evaluate(one, cnn4[:1]).values["energy_j"], alone)


def test_layers_without_statistics_use_the_stated_means(sram, designs, evaluator):
    shape = {"name": "l", "kind": "linear", "in_channels": 64, "out_channels": 64}
    known = Layer(**shape, mean_input=DEFAULT_MEAN_INPUT, mean_weight_slice=DEFAULT_MEAN_WEIGHT_SLICE)
    energies = [
        evaluator.evaluate(designs([sram]), [Workload("w", (layer,))]).values["energy_j"].item()
        for layer in (Layer(**shape), known, Layer(**shape, mean_input=0.1))
    ]
    assert energies[0] == energies[1] > energies[2]


def test_default_means_are_those_of_the_published_layers():
    all_layers = [layer for name in published_names() for layer in load_published(name).layers]
    assert np.mean([layer.mean_input for layer in all_layers]) == pytest.approx(DEFAULT_MEAN_INPUT, abs=1e-6)
    means = np.mean([layer.mean_weight_slice for layer in all_layers], axis=0)
    np.testing.assert_allclose(means, DEFAULT_MEAN_WEIGHT_SLICE, atol=1e-6)


# ------------------------------------------------------------------- settings
def test_config_file_lists_the_constructor(evaluator):
    text = files("cimopt_tiled.conf.evaluator").joinpath("tiled_published.yaml").read_text()
    assert text.startswith("# @package evaluator.tiled_published\n")
    config = yaml.safe_load(text)
    assert list(config["quirks"]) == QUIRKS
    assert TiledEvaluator.from_config(config).cache_key() == evaluator.cache_key()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"preset": "publishd"}, ("preset", "publishd", "'published'")),
        ({"quirks": {"stride_ignord": False}}, ("quirks", "stride_ignord", "'stride_ignored'")),
        ({"quirks": {"stride_ignored": "no"}}, ("stride_ignored", "'no'", "true or false")),
        ({"quirk": {}}, ("quirk", "'quirks'")),
    ],
)
def test_wrong_settings_are_named(config, words):
    with pytest.raises(InputError) as error:
        TiledEvaluator.from_config(config)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"memory": "dram"}, ("memory", "dram", "rram, sram")),
        ({"node_nm": 22}, ("node_nm=22", "rram", "32")),
        ({"v_op": 0.9}, ("v_op=0.9", "0.85")),
        ({"xbar_rows": 48}, ("xbar_rows=48", "512")),
        ({"glb_mb": 0.3}, ("glb_mb", "depth", "2048")),
        ({"macros_per_tile": 3}, ("macros_per_tile", "width=24")),
        ({"memory": "sram", "bits_per_cell": 2}, ("bits_per_cell=2", "sram")),
        ({"bits_per_cell": 9}, ("bits_per_cell=9", "1..8")),
        ({"router_groups": 1.5}, ("router_groups=1.5", "whole")),
    ],
)
def test_designs_outside_the_model_are_named(change, words, base, designs, cnn4):
    with pytest.raises(InputError) as error:
        TiledEvaluator().evaluate(designs([base | change]), cnn4)
    assert all(word in str(error.value) for word in words), str(error.value)


# --------------------------------------------------------------------- quirks
IS_SRAM = {"memory": "sram", "bits_per_cell": 1}
# Quirk -> a change to the base design and the figure it shows in.
QUIRK_CASES = {
    "stride_ignored": ({}, "energy_j"),
    "groups_ignored_in_capacity": ({}, "cells"),
    "exact_split_under_credited": ({}, "energy_j"),
    "buffer_energy_scaled_below_22nm": (IS_SRAM | {"node_nm": 7}, "energy_j"),
    "router_energy_fitted_22nm": (IS_SRAM | {"node_nm": 22, "v_op": 0.8}, "energy_j"),
    "weight_driver_area_added": (IS_SRAM, "area_mm2"),
    "weights_exact_in_time": (IS_SRAM | {"macros_per_tile": 2, "tiles_per_router": 2, "router_groups": 1}, "energy_j"),
    "first_fill_free_in_sram": (IS_SRAM, "energy_j"),
}


def test_every_quirk_has_a_case():
    assert sorted(QUIRK_CASES) == sorted(QUIRKS)


@pytest.mark.parametrize("quirk", QUIRKS)
def test_every_quirk_can_be_switched(quirk, base, designs):
    change, metric = QUIRK_CASES[quirk]
    row = base | change
    layers = (
        Layer("strided", "conv", 16, 32, (3, 3), stride=(2, 2), out_map=(16, 16)),
        Layer("grouped", "conv", 64, 64, (3, 3), groups=4, out_map=(16, 16)),
        Layer("odd", "linear", 514, 3),
        Layer("rest", "linear", 2600, 512),
    )
    on = TiledEvaluator().evaluate(designs([row]), [Workload("w", layers)])
    off = TiledEvaluator(quirks={quirk: False}).evaluate(designs([row]), [Workload("w", layers)])
    found = (on.violations if metric == "cells" else on.values)[metric]
    other = (off.violations if metric == "cells" else off.values)[metric]
    assert found.item() != other.item()


def test_stride_widens_the_input_footprint():
    """Stride 2: inputs (2 x 15 + 3)^2 instead of (15 + 3)^2, in 2048-bit words, beside the outputs."""
    dims = np.array([[8, 8, 3, 3, 16, 16, 1, 1, 1]])
    structure = np.array([[8, 128, 32, 64, 8, 2]])
    kernel, eight = Kernel.of("rram", Quirks()), np.array([[8, 8]])
    writes = {s: count_layers(structure, dims, np.array([[s, s, 1, 1]]), eight, kernel)[0, 0, 11] for s in (1, 2)}
    words = {s: -(-8 * 8 * (15 * s + 3) ** 2 // 2048) for s in (1, 2)}
    assert writes[2] - writes[1] == words[2] - words[1] > 0
