"""Widths of weights and activations: what they change by hand, and what must hold for every design."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from cimopt_tiled.effects import Effects
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.inputs import InputCode
from cimopt_tiled.layers import layer_set
from cimopt_tiled.physical import TiledPhysical
from cimopt_tiled.physical_prices import NO_QUIRKS
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import Kernel, count_layers
from cimopt_tiled.work import DRAM, WorkKernel, layer_work
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt.errors import InputError
from cimopt.testing import space_named
from cimopt.types import Layer, Workload
from cimopt.workloads import load

OFF = {field.name: False for field in fields(Effects)}
WIDTHS = st.tuples(st.integers(1, 16), st.integers(1, 16))


def with_bits(net: Workload, weight_bits: int, activation_bits: int) -> Workload:
    """The network with every layer at these widths."""
    given_ = {"weight_bits": weight_bits, "activation_bits": activation_bits}
    return replace(net, layers=tuple(replace(layer, **given_) for layer in net.layers))


def linear(inputs: int, outputs: int, **more) -> list[Workload]:
    return [Workload("w", (Layer("l", "linear", inputs, outputs, **more),))]


def sampled(space: str, n: int, seed: int):
    chosen = space_named(space)
    return chosen.designs(chosen.sample(n, np.random.default_rng(seed)))


# -------------------------------------------------------------------- by hand
@given(st.lists(WIDTHS, min_size=1, max_size=4), st.integers(1, 8))
def test_cells_are_weights_times_slices(widths, bits):
    layers = tuple(
        Layer(f"l{i}", "linear", 30 + i, 7, weight_bits=w, activation_bits=a) for i, (w, a) in enumerate(widths)
    )
    found = layer_set([Workload("w", layers)], stride_ignored=False, groups_ignored=False)
    assert found.needed_cells(np.array([bits])).item() == sum(
        one.weights * -(-one.weight_bits // bits) for one in layers
    )


@pytest.mark.parametrize("kind", [TiledEvaluator, TiledPhysical])
def test_half_the_bits_need_half_the_cells(kind, base, designs):
    """One-bit cells: the relative amount by which the cells are missed halves, and so does the area to hold them."""
    row = designs([base | {"bits_per_cell": 1, "router_groups": 1, "tiles_per_router": 4, "macros_per_tile": 4}])
    found = [kind().evaluate(row, [with_bits(load("vgg16"), w, 8)]).limits["cells"].value.item() for w in (2, 4, 8, 16)]
    assert found == [138_344_128 * w for w in (2, 4, 8, 16)]


def test_steps_follow_the_bits_of_the_input(base, designs):
    """Bit-serial: one step a bit; cells, whose energy is all pulses, and conversions follow."""
    model = TiledPhysical(effects=OFF | {"bit_serial": True})
    eight = model.evaluate(designs([base]), linear(512, 64), "components").values
    for bits in (1, 3, 4, 16):
        some = model.evaluate(designs([base]), linear(512, 64, activation_bits=bits), "components").values
        for name in ("cycles", "latency_s", "energy_j.cells", "energy_j.adc"):
            assert some[name] == pytest.approx(eight[name] * bits / 8), name


def test_a_step_of_several_bits_is_a_temporal_code(base, designs):
    """Three bits a step: 4 bits take two steps of 7 pulses, 8 bits three; 2 bits one step of 3 pulses."""
    model = TiledPhysical(effects=OFF | {"bit_serial": True}, input_bits_per_cycle=3)
    eight = model.evaluate(designs([base]), linear(512, 64), "components").values
    for bits, steps, pulses in ((4, 2, 14), (2, 1, 3), (3, 1, 7), (10, 4, 28)):
        some = model.evaluate(designs([base]), linear(512, 64, activation_bits=bits), "components").values
        assert some["cycles"] == pytest.approx(eight["cycles"] * steps / 3)
        assert some["energy_j.cells"] == pytest.approx(eight["energy_j.cells"] * pulses / 21)


def test_the_published_input_is_one_step_of_fewer_pulses(base, designs):
    eight = TiledEvaluator().evaluate(designs([base]), linear(512, 64), "components").values
    four = TiledEvaluator().evaluate(designs([base]), linear(512, 64, activation_bits=4), "components").values
    assert four["cycles"] == eight["cycles"]
    assert four["energy_j.cells"] == pytest.approx(eight["energy_j.cells"] * 15 / 255)
    assert four["energy_j.adc"] == eight["energy_j.adc"]


def test_the_published_input_has_no_second_step(base, designs):
    with pytest.raises(InputError, match=r"'l' .*activation_bits=12.*one step.*tiled_physical"):
        TiledEvaluator().evaluate(designs([base]), linear(64, 64, activation_bits=12))


def test_drivers_of_a_component_set_cost_their_pulses():
    """A row of the tables has a part per step, a row of a set none."""
    bits = np.array([4, 8, 16])
    for rows_by_pulse in (False, True):
        cell, row = np.moveaxis(InputCode(8, rows_by_pulse).factors(bits), 1, 0)
        assert cell[:, 1] == pytest.approx([15 / 255, 1, 2])
        assert cell[:, 0] == pytest.approx([1, 1, 2])
        assert row[:, 0] == pytest.approx(cell[:, 1] if rows_by_pulse else cell[:, 0])


def test_weights_take_their_bits_through_dram(sram, designs):
    model = TiledPhysical(effects=OFF | {"dram_bandwidth": True})
    for bits in (1, 3, 8, 12):
        values = model.evaluate(designs([sram]), linear(4096, 4096, weight_bits=bits), "components").values
        assert values["latency_s.weight_swap"].item() == pytest.approx(bits * 4096**2 / 102.4e9)
        # Energy counts the published tool's traffic: the largest part everywhere, more where columns are left over.
        assert values["energy_j.dram"].item() >= bits * 4096**2 * 8e-12 * (1 - 1e-12)


def test_a_dynamic_operand_is_written_in_its_bits(base, designs):
    """Eight-bit cells: 12 bits take two of them, 8 and 3 bits one."""
    model = TiledPhysical(effects=OFF | {"dynamic_writes": True})
    energy = {
        bits: model.evaluate(designs([base]), linear(512, 32, dynamic=True, weight_bits=bits, mean_weight_slice=(0.5,) * 8),
        "layers") for bits in (8, 12)
    }  # fmt: skip
    counts = {bits: metrics.layers["w"].values["energy_j.dynamic_writes"].item() for bits, metrics in energy.items()}
    assert counts[12] == pytest.approx(2 * counts[8])


def test_converters_see_the_levels_that_are_used(base, designs):
    """128 rows: 2-bit weights in 4-bit cells add at most 3 a row and step, ceil(log2(385)) = 9 bits; 8 bits 15: 11."""
    row = designs([base | {"bits_per_cell": 4}])
    for weight_bits, needed in ((1, 8), (2, 9), (4, 11), (8, 11)):
        net = linear(128, 16, weight_bits=weight_bits)
        assert TiledPhysical().evaluate(row, net).values["adc_bits_needed"].item() == needed
    wide = TiledPhysical(input_bits_per_cycle=4)
    for bits, needed in ((1, 11), (2, 13), (8, 15)):  # 128 x 15 x (2^min(bits, 4) - 1)
        assert wide.evaluate(row, linear(128, 16, activation_bits=bits)).values["adc_bits_needed"].item() == needed


def test_a_narrow_weight_uses_the_lower_levels(base, designs):
    """4 bits in 8-bit cells: the mean cell is 15/255 of what 8 bits have; the parts of a cell's energy follow it."""

    def cells(bits: int, mean: float) -> float:
        net = linear(512, 64, weight_bits=bits, mean_weight_slice=(mean,) * 8)
        return TiledPhysical(effects=OFF).evaluate(designs([base]), net, "components").values["energy_j.cells"].item()

    assert cells(4, 0.5) == pytest.approx(cells(8, 0.5 * 15 / 255))
    assert cells(12, 0.5) == pytest.approx(2 * cells(8, 0.5))


# ----------------------------------------------------------------------- laws
@pytest.mark.parametrize("widths", [(4, 4), (3, 5), (16, 8), (1, 1)])
@pytest.mark.parametrize("space", ["rram", "sram"])
def test_without_effects_it_is_the_published_model_at_every_width(space, widths):
    some = sampled(space, 60, 12)
    nets = [with_bits(load(name), *widths) for name in ("resnet18", "mobilenet_v3")]
    ours = TiledPhysical(effects=OFF).evaluate(some, nets, "layers")
    theirs = TiledEvaluator(quirks={f.name: False for f in fields(Quirks)}).evaluate(some, nets, "layers")
    assert theirs.ok.any()
    for name, values in theirs.values.items():
        np.testing.assert_allclose(ours.values[name], values, rtol=1e-12, err_msg=name)
    for net, table in theirs.layers.items():
        for name in ("energy_j", "latency_s", "cycles", "utilization", "energy_j.cells"):
            np.testing.assert_allclose(ours.layers[net].values[name], table.values[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("kind", [TiledEvaluator, TiledPhysical])
@pytest.mark.parametrize("space", ["rram", "sram"])
def test_fewer_activation_bits_never_cost_more(kind, space):
    """The mapping does not see them; energy, latency and needed converter bits of every design and network fall."""
    some, model = sampled(space, 60, 13), kind()
    widths = range(1, 9 if kind is TiledEvaluator else 17)
    for name in ("mobilenet_v3", "vision_transformer"):
        found = [model.evaluate(some, [with_bits(load(name), 8, bits)]).values for bits in widths]
        ok = np.isfinite(found[0]["energy_j"][:, 0])
        for metric in ("energy_j", "latency_s", "adc_bits_needed"):
            if metric in found[0]:
                values = np.stack([v[metric][ok, 0] for v in found])
                assert (values[1:] >= values[:-1] * (1 - 1e-12)).all(), (name, metric)


@pytest.mark.parametrize("kind", [TiledEvaluator, TiledPhysical])
def test_halving_weight_bits_never_costs_more(kind):
    """Networks of stored weights, widths that divide an array: neither energy nor latency rises (README)."""
    some, model = sampled("sram", 200, 14), kind()
    for name in ("resnet18", "mobilenet_v3"):
        found = [model.evaluate(some, [with_bits(load(name), bits, 8)]).values for bits in (1, 2, 4, 8, 16)]
        for metric in ("energy_j", "latency_s"):
            values = np.stack([v[metric][:, 0] for v in found])
            assert (values[1:] >= values[:-1] * (1 - 1e-12)).all(), (name, metric)


def test_sram_never_takes_more_cycles_for_fewer_bits_up_to_a_power_of_two():
    """Columns may stay empty, so 5, 6 and 7 bits are mapped like 8 where that is faster; their cells stay fewer."""
    some, model = sampled("sram", 200, 15), TiledEvaluator()
    for widths in ((3, 4), (5, 6, 7, 8), (9, 11, 13, 16)):
        for name in ("resnet18", "mobilenet_v3"):
            found = [model.evaluate(some, [with_bits(load(name), bits, 8)], "layers").layers[name] for bits in widths]
            cycles = np.stack([table.values["cycles"] for table in found])
            assert (np.diff(cycles, axis=0) >= 0).all(), (name, widths)


def test_empty_columns_are_neither_fetched_nor_read(sram, designs):
    """Seven columns of eight: 64 outputs of 7 bits on 32 columns at most take as long as 8 bits and move less."""
    row = designs([sram | {"xbar_cols": 32, "macros_per_tile": 2, "tiles_per_router": 2}])
    seven, eight = (
        TiledEvaluator().evaluate(row, linear(4096, 64, weight_bits=bits), "components").values for bits in (7, 8)
    )
    assert seven["cycles"] == eight["cycles"]
    assert seven["energy_j.dram"] == pytest.approx(eight["energy_j.dram"] * 7 / 8)
    assert seven["utilization"] == pytest.approx(eight["utilization"] * 7 / 8)


@settings(max_examples=60, deadline=None)
@given(st.lists(WIDTHS, min_size=1, max_size=3), st.sampled_from((32, 128, 512)), st.sampled_from(("rram", "sram")))
def test_work_conserves_products_and_bits(widths, size, memory):
    """Products times slices, weight bits through DRAM, and traffic in activation bits, for mixed widths."""
    bits = 1 if memory == "sram" else 3
    layers = tuple(
        Layer(f"l{i}", "conv", 24, 40, (3, 3), out_map=(9, 7), weight_bits=w, activation_bits=a)
        for i, (w, a) in enumerate(widths)
    )
    found = layer_set([Workload("w", layers)], stride_ignored=False, groups_ignored=False, mark_dynamic=True)
    structure = np.array([(bits, size, size, 8, 4, 2)])
    kernel = WorkKernel(Kernel.of(memory, NO_QUIRKS), resident=False)
    _, work, _, _, figures = layer_work(structure, found, kernel)
    counts = count_layers(structure, found.dims, found.steps, found.widths, kernel.count)[0]
    for one, k in zip(layers, found.workloads[0].shape, strict=True):
        assert counts[k, 0] == one.macs * -(-one.weight_bits // bits)
        if memory == "sram":
            assert work[0, k, DRAM] == pytest.approx(one.weights * one.weight_bits)
    assert 0 < figures[0, 0, 0] <= 1 + 1e-9


def test_mixed_widths_are_evaluated_layer_by_layer(sram, designs):
    """SRAM evaluates one layer after another: a mixed network costs what its layers cost alone."""
    parts = [Layer(f"l{w}", "conv", 64, 64, (3, 3), out_map=(14, 14), weight_bits=w, activation_bits=a)
             for w, a in ((4, 4), (8, 8), (2, 6))]  # fmt: skip
    for kind in (TiledEvaluator, TiledPhysical):
        whole = kind().evaluate(designs([sram]), [Workload("mixed", tuple(parts))]).values
        alone = [kind().evaluate(designs([sram]), [Workload(one.name, (one,))]).values for one in parts]
        for metric in ("energy_j", "latency_s"):
            assert whole[metric].item() == pytest.approx(sum(v[metric].item() for v in alone))
        assert len({v["energy_j"].item() for v in alone}) == 3
