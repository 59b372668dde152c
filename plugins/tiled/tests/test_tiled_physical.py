"""The physical preset: equal to the published one with everything off, and every effect does what it says."""

from __future__ import annotations

from dataclasses import fields
from importlib.resources import files

import numpy as np
import pytest
import yaml
from cimopt_components import adc_resolution, component_set, set_names
from cimopt_tiled.effects import Constants, Effects
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.physical import TiledPhysical
from cimopt_tiled.quirks import Quirks

from cimopt.errors import InputError
from cimopt.testing import space_named
from cimopt.types import Designs, Layer, Parameter, ParameterSet, Workload
from cimopt.workloads import load

EFFECTS = [field.name for field in fields(Effects)]
OFF = dict.fromkeys(EFFECTS, False)
NO_QUIRKS = {field.name: False for field in fields(Quirks)}


def only(*on: str, **settings) -> TiledPhysical:
    """The preset with just these effects."""
    return TiledPhysical(effects=OFF | dict.fromkeys(on, True), **settings)


@pytest.fixture(scope="module")
def zoo() -> list[Workload]:
    return [load(name) for name in ("resnet18", "mobilenet_v3", "vision_transformer")]


@pytest.fixture(scope="module")
def attention() -> Workload:
    """A stored layer and a product of two activations, small enough to follow."""
    stored = Layer("stored", "conv", 64, 64, (3, 3), stride=(2, 2), out_map=(28, 28), padding=(1, 1, 1, 1), repeats=2)
    scores = Layer("scores", "matmul", 128, 256, groups=2, out_map=(128, 1), dynamic=True)
    return Workload(
        "attention", (stored, scores, Layer("depthwise", "conv", 32, 32, (3, 3), groups=32, out_map=(14, 14)))
    )


# --------------------------------------------------------- equal to published
@pytest.mark.parametrize("space", ["rram", "sram", "sram_tech"])
def test_with_all_effects_off_it_is_the_published_model_without_quirks(space, zoo):
    chosen = space_named(space)
    some = chosen.designs(chosen.sample(60, np.random.default_rng(11)))
    ours = only().evaluate(some, zoo, "layers")
    theirs = TiledEvaluator(quirks=NO_QUIRKS).evaluate(some, zoo, "layers")
    assert theirs.ok.sum() >= 5
    compared = 0
    for name, values in theirs.values.items():
        np.testing.assert_allclose(ours.values[name], values, rtol=1e-12, err_msg=name)
        compared += 1
    assert compared > 20
    for name, amounts in theirs.violations.items():
        np.testing.assert_allclose(ours.violations[name], amounts, rtol=1e-12)
    for net, table in theirs.layers.items():
        for name in ("energy_j", "latency_s", "cycles", "utilization", "energy_j.glb"):
            np.testing.assert_allclose(ours.layers[net].values[name], table.values[name], rtol=1e-12, err_msg=name)


# Effect -> settings it needs to show, and the metric in which it shows.
SHOWS = {
    "bit_serial": ({}, "latency_s.bit_serial"),
    "read_pulse_fits_cycle": ({}, "energy_j.cells"),
    "adc_resolution": ({}, "energy_j.adc"),
    "adc_sharing": ({}, "latency_s.adc_sharing"),
    "row_limit": ({}, "latency_s.row_limit"),
    "shift_add": ({}, "energy_j.shift_add"),
    "min_cycle_time": ({}, "latency_s.min_cycle_time"),
    "dram_bandwidth": ({}, "latency_s"),
    "weight_write_time": ({}, "latency_s.dynamic_writes"),
    "programming": ({}, "energy_j.programming"),
    "dynamic_writes": ({}, "energy_j.dynamic_writes"),
    "noc_bandwidth": ({"constants": {"noc_hz": 1e6}}, "latency_s.noc_wait"),
    "buffer_bandwidth": ({}, "latency_s.buffer_wait"),
    "glb_bandwidth": ({}, "latency_s.glb_wait"),
    "activation_spill": ({"batch": 64}, "energy_j.dram_spill"),
    "leakage": ({}, "energy_j.leakage"),
    "idle": ({"inference_period_s": 1.0}, "energy_j.idle"),
    "resident_replicas": ({}, "latency_s.compute"),
    "pipelining": ({}, "throughput_ips"),
    "batching": ({"batch": 64}, "latency_s"),
}
# Effects that are seen only where others leave room for them.
ALONE = {"buffer_bandwidth", "glb_bandwidth", "noc_bandwidth", "dram_bandwidth", "read_pulse_fits_cycle"}


def test_every_effect_has_a_case():
    assert sorted(SHOWS) == sorted(EFFECTS)


@pytest.mark.parametrize("effect", EFFECTS)
def test_every_effect_can_be_switched(effect, base, sram, designs, attention):
    settings, metric = SHOWS[effect]
    row = sram if effect == "dram_bandwidth" else base | {"glb_mb": 0.5}
    if effect == "resident_replicas":  # layers whose copies would fill the chip
        filling = Layer("filling", "conv", 512, 128, out_map=(28, 28), repeats=4)
        attention = Workload("attention", (filling, *attention.layers))
        row |= {"tiles_per_router": 4, "router_groups": 1}
    others = OFF if effect in ALONE else {}
    on = TiledPhysical(effects=others | {effect: True}, **settings).evaluate(designs([row]), [attention], "components")
    off = TiledPhysical(effects=others | {effect: False}, **settings).evaluate(
        designs([row]), [attention], "components"
    )
    assert on.values[metric].item() != off.values[metric].item()
    if metric.count("."):
        assert on.values[metric].item() > 0


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_effect_alone_keeps_sums_and_signs(effect, base, sram, designs, attention):
    model = only(effect, batch=4, inference_period_s=0.5)
    for row in (base, sram):
        metrics = model.evaluate(designs([row]), [attention], "layers")
        for total in ("energy_j", "latency_s", "area_mm2"):
            parts = [v for k, v in metrics.values.items() if k.startswith(total + ".")]
            assert all((part >= 0).all() for part in parts)
            np.testing.assert_allclose(sum(parts), metrics.values[total], rtol=1e-9)
        table = metrics.layers["attention"].values
        for total in ("energy_j", "latency_s"):
            np.testing.assert_allclose(table[total].sum(axis=1), metrics.values[total][:, 0], rtol=1e-9)
            for name in [k for k in table if k.startswith(total + ".")]:
                np.testing.assert_allclose(
                    table[name].sum(axis=1), metrics.values[name][:, 0], rtol=1e-9, atol=0, err_msg=name
                )


# ------------------------------------------------------------ effects by hand
def test_bit_serial_cycles(base, designs, attention):
    one = designs([base])
    cycles = only().evaluate(one, [attention]).values["cycles"].item()
    for bits, steps in ((1, 8), (2, 4), (3, 3), (8, 1)):
        serial = only("bit_serial", input_bits_per_cycle=bits).evaluate(one, [attention]).values["cycles"].item()
        assert serial == pytest.approx(cycles * steps)


def test_eight_bits_per_cycle_is_the_published_input(base, designs, attention):
    one = designs([base])
    a = only("bit_serial", input_bits_per_cycle=8).evaluate(one, [attention], "components")
    b = only().evaluate(one, [attention], "components")
    for name, values in b.values.items():
        np.testing.assert_allclose(a.values[name], values, rtol=1e-12, err_msg=name)


def test_bits_make_fewer_pulses(base, designs):
    """8 steps of one pulse instead of 255 pulses: cells, whose energy is all pulses, cost 8/255."""
    net = [Workload("w", (Layer("l", "linear", 512, 64),))]
    serial, pulses = (m.evaluate(designs([base]), net, "components").values for m in (only("bit_serial"), only()))
    ratio = serial["energy_j.cells"] / pulses["energy_j.cells"]
    assert ratio.item() == pytest.approx(8 / 255)
    assert serial["energy_j.adc"].item() == pytest.approx(8 * pulses["energy_j.adc"].item())


def test_sharing_costs_steps_and_saves_converters_once(base, designs):
    net = [Workload("w", (Layer("l", "linear", 512, 128),))]
    alone = only("adc_sharing", cols_per_adc=1).evaluate(designs([base]), net, "components").values
    for share in (2, 8, 128):
        shared = only("adc_sharing", cols_per_adc=share).evaluate(designs([base]), net, "components").values
        assert shared["area_mm2.adc"] == pytest.approx(alone["area_mm2.adc"] / share)
        assert shared["cycles"] == pytest.approx(alone["cycles"] * share)
        assert shared["energy_j.adc"] == pytest.approx(alone["energy_j.adc"])


def test_row_limit_costs_steps_and_conversions(base, designs):
    net = [Workload("w", (Layer("l", "linear", 512, 128),))]
    free = only().evaluate(designs([base]), net, "components").values
    for rows, passes in ((512, 1), (300, 2), (128, 4), (1, 512)):
        limited = only("row_limit", rows_per_read=rows).evaluate(designs([base]), net, "components").values
        assert limited["cycles"] == pytest.approx(free["cycles"] * passes)
        assert limited["energy_j.adc"] == pytest.approx(free["energy_j.adc"] * passes)
        assert limited["energy_j.cells"] == pytest.approx(free["energy_j.cells"])


def test_a_nanosecond_at_low_voltage_is_not_free(base, designs, attention):
    volts = (0.5, 0.6, 0.7, 0.85)
    metrics = TiledPhysical(adc_bits=8).evaluate(designs([base | {"v_op": v} for v in volts]), [attention])
    t = metrics.values["t_cycle_eff_s"]
    assert (np.diff(t) < 0).all()
    slow = (0.5 / 0.17**1.3) / (1.0 / 0.67**1.3)
    assert t[0] == pytest.approx(slow * 2048 / (3.596e12 * 0.124) * 32 / 22)
    assert t[0] > 15e-9
    patient = TiledPhysical(adc_bits=4).evaluate(designs([base | {"t_cycle_ns": 10, "v_op": 0.85}]), [attention])
    assert patient.values["t_cycle_eff_s"].item() == pytest.approx(10e-9)


def test_below_threshold_nothing_switches(sram, designs, attention):
    model = TiledPhysical(constants={"v_threshold": 0.55})
    with pytest.raises(InputError, match=r"v_op=0\.5 .*0\.55"):
        model.evaluate(designs([sram]), [attention])


def test_weights_take_their_time_through_dram(sram, designs):
    """SRAM: 8 bits a weight at 102.4 Gbit/s, not overlapped with computing."""
    net = [Workload("w", (Layer("l", "linear", 4096, 4096),))]
    on = only("dram_bandwidth").evaluate(designs([sram]), net, "components").values
    assert on["latency_s.weight_swap"].item() == pytest.approx(8 * 4096**2 / 102.4e9)
    batch = only("dram_bandwidth", "batching", batch=16).evaluate(designs([sram]), net, "components").values
    assert batch["latency_s.weight_swap"].item() == pytest.approx(on["latency_s.weight_swap"].item())
    assert batch["energy_j.dram"].item() == pytest.approx(on["energy_j.dram"].item() / 16)
    assert batch["throughput_ips"].item() > on["throughput_ips"].item()


def test_dynamic_operands_are_written_each_inference(base, sram, designs):
    scores = Layer("scores", "matmul", 512, 64, out_map=(1, 1), dynamic=True)
    stored = Layer("stored", "linear", 512, 64)
    for row in (base, sram):
        dynamic, static = (
            only("dynamic_writes").evaluate(designs([row]), [Workload("w", (layer,))], "components").values
            for layer in (scores, stored)
        )
        assert dynamic["energy_j.dynamic_writes"].item() > 0
        assert static["energy_j.dynamic_writes"].item() == 0
        assert dynamic["energy_j.dram"].item() == 0
        assert dynamic["energy_j.glb"].item() > static["energy_j.glb"].item()
        assert dynamic["swap_count"].item() >= 1
    timed = only("dynamic_writes", "weight_write_time").evaluate(
        designs([base]), [Workload("w", (scores,))], "components"
    )
    assert timed.values["latency_s.dynamic_writes"].item() == pytest.approx(512 * 8.52 * 50e-9)


def test_programming_is_spread_over_inferences(base, designs):
    net = [Workload("w", (Layer("l", "linear", 512, 64),))]
    few, many = (
        only("programming", inferences_per_programming=n).evaluate(designs([base]), net, "components").values
        for n in (1e3, 1e6)
    )
    assert few["energy_j.programming"] == pytest.approx(1e3 * many["energy_j.programming"])
    assert few["program_energy_j"].item() == pytest.approx(1e3 * few["energy_j.programming"].item())
    assert few["program_time_s"].item() == pytest.approx(512 * 8.52 * 50e-9)
    assert few["latency_s.programming"].item() == pytest.approx(few["program_time_s"].item() / 1e3)


def test_activations_beyond_the_buffer_spill(base, designs):
    """64 channels of 128 x 128 in and out of a 1x1 layer: 16 Mbit against 4 Mbit."""
    net = [Workload("w", (Layer("l", "conv", 64, 64, out_map=(128, 128)),))]
    rows = [base | {"glb_mb": mb} for mb in (0.5, 1.0, 2.0, 32.0)]
    metrics = only("activation_spill").evaluate(designs(rows), net, "components")
    bits = 2 * 8 * 64 * 128 * 128
    expected = [2 * max(0, bits - mb * 2**23) * 8e-12 for mb in (0.5, 1.0, 2.0, 32.0)]
    np.testing.assert_allclose(metrics.values["energy_j.dram_spill"][:, 0], expected)
    assert "glb" not in metrics.violations
    assert "glb" in only().evaluate(designs(rows), net).violations


def test_copies_need_cells_of_their_own(base, designs, zoo):
    """RRAM: with every layer resident, latency is at least that of each layer having the chip to itself."""
    row = designs([base])
    alone, beside = (only(*on).evaluate(row, zoo[:1], "layers") for on in ((), ("resident_replicas",)))
    assert beside.values["latency_s"].item() > alone.values["latency_s"].item()
    assert beside.values["utilization"].item() <= alone.values["utilization"].item()
    slower = beside.layers["resnet18"].values["latency_s"] / alone.layers["resnet18"].values["latency_s"]
    assert (slower >= 1 - 1e-12).all()


def test_pipelining_raises_throughput_not_latency(base, sram, designs, zoo):
    for row, faster in ((base, True), (sram, False)):
        a, b = (only(*on).evaluate(designs([row]), zoo[:1]).values for on in ((), ("pipelining",)))
        assert a["latency_s"].item() == b["latency_s"].item()
        assert (b["throughput_ips"].item() > a["throughput_ips"].item()) == faster


def test_dynamic_operands_share_their_room_in_a_pipeline(base, designs):
    """Cells are kept for one operand: two products take turns, two stored layers work at the same time."""
    shape = {"kind": "matmul", "in_channels": 512, "out_channels": 64, "out_map": (64, 1)}
    effects = ("dynamic_writes", "weight_write_time", "pipelining")
    for dynamic, layers_per_period in ((True, 2), (False, 1)):
        one, two = (
            only(*effects).evaluate(
                designs([base]), [Workload("w", tuple(Layer(f"l{i}", dynamic=dynamic, **shape) for i in range(n)))]
            ).values["throughput_ips"].item()
            for n in (1, 2)
        )  # fmt: skip
        assert one / two == pytest.approx(layers_per_period)


def test_idle_power_fills_the_time_between_inferences(sram, designs, zoo):
    model = only("leakage", "idle", inference_period_s=1.0)
    values = model.evaluate(designs([sram]), zoo[:1], "components").values
    power = values["energy_j.leakage"].item() / values["latency_s"].item()
    assert values["energy_j.idle"].item() == pytest.approx(power * (1 - values["latency_s"].item()))
    busy = only("leakage", "idle", inference_period_s=1e-9).evaluate(designs([sram]), zoo[:1], "components").values
    assert busy["energy_j.idle"].item() == 0


def test_groups_share_arrays_when_asked(base, designs):
    net = [Workload("w", (Layer("l", "conv", 32, 32, (3, 3), groups=32, out_map=(7, 7)),))]
    one, packed = (
        only(grouped_policy=policy).evaluate(designs([base]), net, "components").values
        for policy in ("one_group_per_array", "block_diagonal")
    )
    assert packed["energy_j.cells"] == pytest.approx(one["energy_j.cells"])
    assert packed["cycles"].item() <= one["cycles"].item()


# ----------------------------------------------------------------- parameters
def with_options(row: dict, **options) -> Designs:
    """A design whose space has more parameters."""
    names = row | {k: v if isinstance(v, tuple) else (v,) for k, v in options.items()}
    lists = {k: v if isinstance(v, tuple) else (v,) for k, v in names.items()}
    n = max(len(v) for v in lists.values())
    genes = np.array([[min(i, len(v) - 1) for v in lists.values()] for i in range(n)])
    return Designs(ParameterSet(tuple(Parameter(k, v) for k, v in lists.items())), genes)


@pytest.mark.parametrize(
    ("name", "values"), [("adc_bits", (4, 8)), ("cols_per_adc", (1, 16)), ("rows_per_read", (16, 512))]
)
def test_an_option_is_a_parameter_or_a_setting(name, values, base, designs, attention):
    as_parameter = TiledPhysical().evaluate(with_options(base, **{name: values}), [attention]).values
    for i, value in enumerate(values):
        as_setting = TiledPhysical(**{name: value}).evaluate(designs([base]), [attention]).values
        for metric, found in as_setting.items():
            np.testing.assert_allclose(as_parameter[metric][i : i + 1], found, rtol=1e-12, err_msg=metric)


def test_component_sets_are_data(base, sram, designs, attention):
    assert set_names() == ("isaac_like", "neurosim_like")
    isaac = TiledPhysical(components="isaac_like").evaluate(designs([base]), [attention], "components").values
    table = adc_resolution()
    macros = 32 * 32 * 8
    assert isaac["area_mm2.adc"].item() == pytest.approx(macros * table.area_mm2[8])  # 128 columns, one converter
    assert isaac["area_mm2.row_drivers"].item() == pytest.approx(macros * 512 * component_set("isaac_like").dac_mm2)
    with pytest.raises(InputError, match=r"node_nm=22 .*isaac_like.*32"):
        TiledPhysical(components="isaac_like").evaluate(designs([sram | {"node_nm": 22, "v_op": 0.8}]), [attention])


def test_unvalidated_nodes_need_permission(sram, designs, attention):
    row = designs([sram | {"node_nm": node, "v_op": 1.0} for node in (65, 90)])
    for kind in (TiledPhysical, TiledEvaluator):
        with pytest.raises(InputError, match=r"node_nm=65 .*allow_unvalidated"):
            kind().evaluate(row, [attention])
        metrics = kind(allow_unvalidated=True).evaluate(row, [attention], "components")
        assert metrics.ok.all()
        router = metrics.values["area_mm2.router"]
        assert router[1] / router[0] == pytest.approx((90 / 65) ** 2)


# -------------------------------------------------------------------- settings
def test_config_file_lists_every_setting():
    text = files("cimopt_tiled.conf.evaluator").joinpath("tiled_physical.yaml").read_text()
    assert text.startswith("# @package evaluator.tiled_physical\n")
    config = yaml.safe_load(text)
    assert list(config["effects"]) == EFFECTS
    assert list(config["constants"]) == [field.name for field in fields(Constants)]
    assert TiledPhysical.from_config(config).cache_key() == TiledPhysical().cache_key()


def test_every_setting_changes_the_cache_key():
    default = TiledPhysical().cache_key()
    other = {
        "components": "isaac_like", "adc_bits": 7, "cols_per_adc": 3, "rows_per_read": 5, "input_bits_per_cycle": 2,
        "batch": 2, "inferences_per_programming": 5.0, "inference_period_s": 1.0, "grouped_policy": "block_diagonal",
        "interpolate": True, "allow_unvalidated": True, "effects": {"leakage": False}, "constants": {"alpha": 1.4},
    }  # fmt: skip
    for key, value in other.items():
        assert TiledPhysical(**{key: value}).cache_key() != default, key


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"effects": {"leakge": False}}, ("effects", "leakge", "'leakage'")),
        ({"effects": {"leakage": 0}}, ("leakage=0", "true or false")),
        ({"constants": {"alfa": 1.3}}, ("constants", "alfa", "'alpha'")),
        ({"constants": {"alpha": -1}}, ("alpha=-1", "> 0")),
        ({"components": "isac_like"}, ("isac_like", "'isaac_like'")),
        ({"grouped_policy": "dense"}, ("grouped_policy", "dense", "block_diagonal")),
        ({"input_bits_per_cycle": 9}, ("input_bits_per_cycle=9", "1..8")),
        ({"batch": 0}, ("batch=0", ">= 1")),
        ({"inference_period_s": 0}, ("inference_period_s=0", "> 0")),
        ({"allow_unvalidated": "yes"}, ("allow_unvalidated", "true or false")),
        ({"rows_per_read": 1.5}, ("rows_per_read", "1.5", "whole")),
    ],
)
def test_wrong_settings_are_named(config, words):
    with pytest.raises(InputError) as error:
        TiledPhysical.from_config(config)
    assert all(word in str(error.value) for word in words), str(error.value)
