"""Both array models over networks of every kind: what is evaluated is the network, layer by layer.

Zoo networks and, where they lie beside the checkout, public files of other tools: depthwise, grouped, attention,
layers larger than a chip and smaller than an array. Cases M1 to M16 by hand are in the plug-ins' own tests.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import pytest
from cimopt_tiled.counts import ACTIVE_CELLS, CELL_READS, CYCLES
from cimopt_tiled.evaluator import STRUCTURE, TiledEvaluator
from cimopt_tiled.layers import layer_set
from cimopt_tiled.physical import GROUPED_POLICIES, TiledPhysical
from cimopt_tiled.physical_prices import NO_QUIRKS
from cimopt_tiled.structure import Kernel, count_layers
from cimopt_zeroskip.evaluator import ZeroSkipEvaluator
from cimopt_zeroskip.mapping import GROUP_POLICIES, ArraySpec

from cimopt.testing import space_named
from cimopt.types import Designs, Metrics, Workload
from cimopt.workloads import load
from cimopt.workloads.importers import import_file

ZOO = ("resnet18", "mobilenet_v3", "densenet201", "mobilebert", "vision_transformer", "gpt2_medium")
FILES = (
    "alexnet_grouped.onnx", "ds_cnn.onnx", "mobilenetv2.onnx", "light_squeezenet.onnx", "attention_head.onnx",
    "swiglu_64_128_256.onnx", "resnet18_timeloop",
)  # fmt: skip
FOLDERS = (Path(os.environ.get("CIMOPT_CASE_FILES", "")), Path(__file__).parents[3] / "shared" / "cases" / "files")
POLICIES = ("block_diagonal", "one_group_per_array")


@functools.cache
def network(name: str) -> Workload:
    """A zoo network or an imported file; a file that is not there skips the test."""
    if name in ZOO:
        return load(name)
    folder = next((f for f in FOLDERS if (f / name).exists()), None)
    if folder is None:
        pytest.skip("no public sample files beside this checkout")
    return import_file(folder / name).workload


def designs(space: str, n: int, **fixed) -> Designs:
    """Random designs with some parameters at given values."""
    chosen = space_named(space)
    genes = chosen.sample(n, np.random.default_rng(6))
    for name, value in fixed.items():
        at = chosen.names.index(name)
        genes[:, at] = chosen.parameters.parameters[at].choices.index(value)
    return chosen.designs(genes)


def check(metrics: Metrics, net: Workload) -> None:
    """No NaN without a reason, breakdowns and layers that sum, true utilisations, every layer there."""
    table = metrics.layers[net.name]
    ok = metrics.ok
    assert ok.any()
    for name, values in (metrics.values | dict(table.values)).items():
        assert np.isfinite(values[ok]).all(), name
        assert np.isnan(values[~ok]).all(), name
    for total in ("energy_j", "area_mm2"):
        parts = [v for k, v in metrics.values.items() if k.startswith(total + ".")]
        assert all((part[ok] >= 0).all() for part in parts)
        np.testing.assert_allclose(sum(parts)[ok], metrics.values[total][ok], rtol=1e-9)
    for total in ("energy_j", "latency_s"):
        np.testing.assert_allclose(table.values[total][ok].sum(axis=1), metrics.values[total][ok, 0], rtol=1e-9)
    used = table.values["utilization"][ok]
    assert (used > 0).all()
    assert (used <= 1 + 1e-9).all()
    assert (table.values["groups_per_array"][ok] >= 1).all()


def test_both_models_use_the_same_words():
    assert set(GROUPED_POLICIES) == set(GROUP_POLICIES) == set(POLICIES)
    for kind in (TiledPhysical, ZeroSkipEvaluator):
        for policy in POLICIES:
            assert kind.from_config({"grouped_policy": policy}).cache_key()["grouped_policy"] == policy


@pytest.mark.parametrize("name", ZOO + FILES)
@pytest.mark.parametrize("memory", ["rram", "sram"])
def test_tiled_counts_are_the_layers(name, memory):
    """Products of every layer and repeat on random chips, and cells that hold each weight once."""
    net = network(name)
    found = layer_set([net], stride_ignored=False, groups_ignored=False, mark_dynamic=True)
    some = designs(memory, 12)
    structures = np.stack([some[key] for key in STRUCTURE], axis=1)
    macs = np.array([layer.macs // layer.repeats for layer in net.layers])
    slices = -(-8 // structures[:, :1])
    for pack in (False, True):
        kernel = Kernel.of(memory, NO_QUIRKS, pack)
        counts = count_layers(structures, found.dims, found.steps, found.widths, kernel)[:, found.workloads[0].shape]
        np.testing.assert_allclose(counts[:, :, CELL_READS] / slices, np.broadcast_to(macs, counts.shape[:2]))
        np.testing.assert_allclose(counts[:, :, ACTIVE_CELLS] * counts[:, :, CYCLES], macs * slices)
    largest = max((layer.weights // layer.repeats for layer in net.layers if layer.dynamic), default=0)
    np.testing.assert_array_equal(found.needed_cells(structures[:, 0])[:, 0], (net.weights + largest) * slices[:, 0])


@pytest.mark.parametrize("name", ZOO + FILES)
def test_tiled_evaluates_every_layer(name):
    """Both presets, both memories, both policies; products of two activations cost writes, and nothing else does."""
    net = network(name)
    big = {"macros_per_tile": 128, "tiles_per_router": 64, "xbar_rows": 512, "xbar_cols": 512, "router_groups": 32}
    for some in (designs("rram", 3, **big), designs("sram", 3)):
        check(TiledEvaluator().evaluate(some, [net], "layers"), net)
        for policy in POLICIES:
            metrics = TiledPhysical(grouped_policy=policy).evaluate(some, [net], "layers")
            check(metrics, net)
            table = metrics.layers[net.name]
            dynamic = [layer.dynamic for layer in net.layers]
            for part in ("energy_j.dynamic_writes", "latency_s.dynamic_writes"):
                assert ((table.values[part] > 0) == dynamic).all(), part


@pytest.mark.parametrize("name", ZOO + FILES)
def test_a_network_larger_than_the_chip(name):
    """RRAM: the amount, and no metrics; SRAM: weights are swapped in, each at least once."""
    net = network(name)
    small = {"macros_per_tile": 4, "tiles_per_router": 4, "xbar_rows": 32, "xbar_cols": 32, "router_groups": 1}
    cells = 4 * 4 * 32 * 32
    for model in (TiledEvaluator(quirks={"groups_ignored_in_capacity": False}), TiledPhysical()):
        metrics = model.evaluate(designs("rram", 2, **small, bits_per_cell=1), [net])
        assert [metrics.outcome(i).state for i in (0, 1)] == ["infeasible"] * 2
        largest = max((layer.weights // layer.repeats for layer in net.layers if layer.dynamic), default=0)
        stored = net.weights + largest if isinstance(model, TiledPhysical) else sum(x.weights for x in net.layers)
        assert metrics.violations["cells"] == pytest.approx(8 * stored / cells - 1)
    swapped = TiledPhysical().evaluate(designs("sram", 2, router_groups=1, tiles_per_router=2), [net], "layers")
    check(swapped, net)
    stored = [not layer.dynamic for layer in net.layers]
    assert (swapped.layers[net.name].values["energy_j.dram"][:, stored] > 0).all()
    assert (swapped.values["energy_j.dram"] >= 8 * net.weights * 8e-12 * (1 - 1e-9)).all()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ZOO + FILES)
def test_zeroskip_maps_every_layer(name, policy):
    """Rows and cells over all blocks, products over all layers, on two kinds of array."""
    net = network(name)
    model = ZeroSkipEvaluator(dynamic_layers="write", include_linear=True, grouped_policy=policy)
    layers = model.network(net).layers
    assert layers == net.layers
    for array in ({}, {"xbar_rows": 256, "xbar_cols": 64, "bits_per_cell": 3}):
        spec = ArraySpec(**array, grouped_policy=policy)
        mapped = model.network(net).mapped(spec)
        assert sum(m.macs for m in mapped) == net.macs
        for one in mapped:
            layer = one.layer
            cells = one.block_rows.sum() * (layer.out_channels // layer.groups) * spec.cells_per_weight
            assert cells == layer.weights // layer.repeats * spec.cells_per_weight
            assert 0 < one.cell_use <= 1
            assert one.groups_per_array == 1 or policy == "block_diagonal"


@pytest.mark.parametrize("name", ["mobilenet_v3", "mobilebert", *FILES[:2], *FILES[4:6]])
def test_zeroskip_evaluates_every_layer(name):
    net = network(name)
    model = ZeroSkipEvaluator(dynamic_layers="write", include_linear=True, fidelity="totals", arrays_per_pe=4096)
    metrics = model.evaluate(designs("zeroskip", 2), [net], "layers")
    check(metrics, net)
    table = metrics.layers[net.name].values
    dynamic = [layer.dynamic for layer in net.layers for _ in range(layer.repeats)]
    assert ((table["write_cycles"][metrics.ok] > 0) == dynamic).all()
    assert (metrics.values["energy_j.dynamic_writes"][metrics.ok] > 0).all() == any(dynamic)
    one_pe = ZeroSkipEvaluator(dynamic_layers="write", include_linear=True, fidelity="totals", arrays_per_pe=1)
    small = {"xbar_rows": 64, "xbar_cols": 64, "n_pes": 16}
    few = one_pe.evaluate(designs("zeroskip", 1, **small), [net])
    assert few.outcome(0).state == "infeasible"
    assert few.violations["arrays"].item() > 0
