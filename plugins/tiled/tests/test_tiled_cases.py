"""Cases M1-M16 and E1-E21 met by people of this field in other tools, each with the right value.

Numbers as in the list this project collected (gaps in it are intended). Cases that other rooms answer are
tested here only as far as this model is concerned:

- E2, E14 (resistances swapped or equal): cell resistances are fixed inside the tables (6 k / 900 kohm), so there
  is no such parameter; a key of that name is refused and no metric is ever NaN without a reason.
- E12: the space refuses 1.1 V at 7 nm; here the table lookup refuses it too.
- E19: this model does not skip zeros; what holds is that activity changes energy and never cycles.
- E21: approximations are stated in the README beside each effect, which is what is checked.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from cimopt_components import ComponentTables, adc_resolution, needed_bits
from cimopt_tiled.counts import ACTIVE_CELLS, ARRAYS, CELL_READS, COLS_USED, CYCLES, N_ENERGY, ROWS_USED
from cimopt_tiled.effects import Constants, Effects
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.layers import layer_set
from cimopt_tiled.physical import OPTIONAL, TiledPhysical
from cimopt_tiled.physical_prices import NO_QUIRKS
from cimopt_tiled.structure import Kernel, count_layers

from cimopt.errors import InputError
from cimopt.testing import space_named
from cimopt.types import Layer, Workload
from cimopt.workloads import load

OFF = {field.name: False for field in fields(Effects)}
README = Path(__file__).parents[1] / "README.md"


def counts(layer: Layer, structure: tuple[int, ...], memory: str = "rram", pack: bool = False) -> np.ndarray:
    """Counts of one layer on (bits per cell, rows, columns, macros, tiles, groups)."""
    found = layer_set([Workload("w", (layer,))], stride_ignored=False, groups_ignored=False)
    return count_layers(
        np.array([structure]), found.dims, found.steps, found.widths, Kernel.of(memory, NO_QUIRKS, pack)
    )[0, 0]


def linear(inputs: int, outputs: int, **more) -> Layer:
    return Layer("l", "linear", inputs, outputs, **more)


# -------------------------------------------------------------------- mapping
def test_m1_partly_filled_last_array():
    """1152 x 1024 on 256 x 256, one cell a weight: 5 x 4 arrays, 0.900 of their cells."""
    found = counts(linear(1152, 1024), (8, 256, 256, 32, 1, 1))
    assert found[ARRAYS] == 20
    assert found[CYCLES] == 1
    assert found[ACTIVE_CELLS] / (20 * 256 * 256) == pytest.approx(0.900)


def test_m2_layer_smaller_than_an_array():
    found = counts(linear(10, 10), (8, 256, 256, 1, 1, 1))
    assert found[ARRAYS] == 1
    assert found[ACTIVE_CELLS] / 256**2 == pytest.approx(0.0015259, rel=1e-4)


def test_m4_cells_per_weight_are_rounded_up():
    """8-bit weights in 3-bit cells: 3 slices, 30 columns for 10 outputs, 2 bits left for the last slice."""
    found = counts(linear(10, 10), (3, 64, 64, 1, 1, 1))
    assert found[COLS_USED] == 30
    assert found[CELL_READS] == 100 * 3
    assert 8 - 2 * 3 == 2


def test_m5_sharing_never_divides_to_zero(base, designs):
    """Eight slices, 4 columns a converter: still four conversions one after another, and never fewer than for 1."""
    row = base | {"bits_per_cell": 1, "xbar_cols": 128}
    net = [Workload("w", (linear(128, 16),))]
    cycles = [
        TiledPhysical(effects=OFF | {"adc_sharing": True}, cols_per_adc=mux)
        .evaluate(designs([row]), net).values["cycles"].item()
        for mux in (1, 2, 4, 8, 16, 128)
    ]  # fmt: skip
    assert np.allclose(np.array(cycles) / cycles[0], [1, 2, 4, 8, 16, 128])


@pytest.mark.parametrize("kind", [TiledEvaluator, TiledPhysical])
def test_m7_network_bigger_than_the_chip(kind, base, designs):
    """178 tiles of weights, 176 tiles on the chip: the amount is 178/176 - 1, the other design keeps its result."""
    rows = [
        base | {"xbar_rows": 128, "macros_per_tile": 4, "tiles_per_router": n, "router_groups": 1} for n in (176, 178)
    ]
    net = [Workload("w", (linear(178 * 64, 1024),))]
    metrics = kind().evaluate(designs(rows), net)
    assert metrics.violations["cells"][0] == pytest.approx(178 / 176 - 1)
    assert metrics.violations["cells"][1] == 0
    assert [metrics.outcome(i).state for i in (0, 1)] == ["infeasible", "ok"]


def test_m8_unroll_is_clipped_to_the_layer():
    found = counts(linear(8, 4), (8, 32, 32, 1, 1, 1))
    assert (found[ROWS_USED], found[COLS_USED]) == (8, 4)
    assert found[ACTIVE_CELLS] / 32**2 < 1


def test_m9_remainder_across_units():
    """A batch of 8 over 6 units: two rounds and 512 products, not 768."""
    found = counts(linear(8, 8, batch=8), (8, 8, 8, 6, 1, 1))
    assert found[CYCLES] == 2
    assert found[CELL_READS] == 512


def test_m10_depthwise_policies():
    """32 groups, 3 x 3, eight 1-bit cells a weight, 128 x 128: 32 arrays, or 3 packed ones 0.0469 full."""
    layer = Layer("l", "conv", 32, 32, (3, 3), groups=32)
    alone = counts(layer, (1, 128, 128, 32, 1, 1))
    packed = counts(layer, (1, 128, 128, 32, 1, 1), pack=True)
    assert alone[ARRAYS] == 32
    assert packed[ARRAYS] == 3
    assert packed[ACTIVE_CELLS] / (3 * 128**2) == pytest.approx(2304 / 49152)
    assert alone[CELL_READS] == packed[CELL_READS] == 2304


def test_m10_the_policy_used_is_reported(base, designs):
    """Per layer, in both presets: groups that share an array; a layer without groups has 1."""
    row = designs([base | {"bits_per_cell": 1, "xbar_rows": 128, "xbar_cols": 128}])
    net = Workload("w", (Layer("dw", "conv", 32, 32, (3, 3), groups=32), linear(64, 64)))
    for model, together in (
        (TiledPhysical(grouped_policy="block_diagonal"), 11),  # 14 fit; 32 groups are evened out over 3 arrays
        (TiledPhysical(grouped_policy="one_group_per_array"), 1),
        (TiledEvaluator(), 1),
    ):
        assert model.evaluate(row, [net], "layers").layers["w"].values["groups_per_array"].tolist() == [[together, 1]]
    for policy in ("one_group_per_array", "block_diagonal"):
        assert TiledPhysical(grouped_policy=policy).cache_key()["grouped_policy"] == policy


@pytest.mark.parametrize("space", ["rram", "sram", "sram9", "sram_tech"])
def test_m11_evaluated_macs_are_the_workloads(space):
    nets = [load(name) for name in ("resnet18", "mobilenet_v3", "mobilebert")]
    chosen = space_named(space)
    some = chosen.designs(chosen.sample(80, np.random.default_rng(2)))
    for kind in (TiledEvaluator, TiledPhysical):
        values = kind().evaluate(some, nets).values
        macs = values["tops"] / values["throughput_ips"] * 1e12 / 2
        ok = ~np.isnan(macs[:, 0])
        assert ok.sum() >= 5
        np.testing.assert_allclose(macs[ok], [[net.macs for net in nets]] * ok.sum(), rtol=1e-12)
    model = TiledPhysical()
    parts = model.run_stages(some, nets)["structure"]
    reads, bits = model._pool.take("sums", parts.gather("slot"))[:, :, 0], parts.gather("structure")[:, 0]
    np.testing.assert_allclose(reads[ok], (np.array([n.macs for n in nets]) * -(-8 // bits)[:, None])[ok])


def test_m12_one_bad_candidate_leaves_the_others(base, designs, cnn4):
    rows = [base, base | {"router_groups": 1}, base | {"v_op": 0.85}]
    for kind in (TiledEvaluator, TiledPhysical):
        together = kind().evaluate(designs(rows), cnn4)
        assert together.reason.tolist() == [0, 1, 0]
        alone = kind().evaluate(designs([rows[0]]), cnn4)
        np.testing.assert_allclose(together.values["energy_j"][0], alone.values["energy_j"][0], rtol=1e-12)


@pytest.mark.parametrize("rows", [16, 32, 64, 256, 512])
def test_m13_rows_over_blocks_are_all_rows(rows):
    """A 1152-row layer: full parts and the last one add up to 1152, and the cells to weights x slices."""
    found = counts(linear(1152, 32), (8, rows, 32, 128, 1, 1))
    parts = found[ARRAYS]
    part = found[ROWS_USED]
    last = 1152 - part * (parts - 1)
    assert 0 < last <= part <= rows
    assert found[ACTIVE_CELLS] * found[CYCLES] == 1152 * 32


def test_m15_dynamic_operands_are_written():
    net = load("vision_transformer")
    products = {layer.name for layer in net.layers if layer.dynamic}
    assert len(products) == 24
    space = space_named("sram")
    metrics = TiledPhysical().evaluate(space.designs(space.sample(3, np.random.default_rng(0))), [net], "layers")
    table = metrics.layers["vision_transformer"]
    written = table.values["energy_j.dynamic_writes"] > 0
    assert {name for name, any_ in zip(table.names, written.all(axis=0), strict=True) if any_} == products
    assert (written.any(axis=0) == written.all(axis=0)).all()


@pytest.mark.parametrize("space", ["rram", "sram"])
@pytest.mark.parametrize("name", ["router_groups", "tiles_per_router", "macros_per_tile"])
def test_m16_more_arrays_are_never_slower(space, name):
    """At equal everything else, in both presets, for random designs of the published spaces."""
    chosen = space_named(space)
    genes = chosen.sample(1500, np.random.default_rng(4))
    at = chosen.names.index(name)
    more = genes.copy()
    more[:, at] = np.minimum(more[:, at] + 1, chosen.n_choices[at] - 1)
    nets = [load(n) for n in ("resnet18", "mobilenet_v3")]
    for model in (TiledEvaluator(), TiledPhysical()):
        small, large = (model.evaluate(chosen.designs(g), nets).values["latency_s"] for g in (genes, more))
        ratio = large / small
        assert np.isfinite(ratio).any()
        assert np.nanmax(ratio) <= 1 + 1e-9


@pytest.mark.parametrize("space", ["rram", "sram"])
def test_m16_a_larger_buffer_moves_no_more(space):
    chosen = space_named(space)
    genes = chosen.sample(300, np.random.default_rng(5))
    at = chosen.names.index("glb_mb")
    nets = [load("vgg16")]
    moved = []
    for gene in range(chosen.n_choices[at]):
        genes[:, at] = gene
        values = TiledPhysical().evaluate(chosen.designs(genes), nets, "components").values
        moved.append(values["energy_j.dram_spill"] + values["energy_j.dram"])
    ok = np.isfinite(moved[0][:, 0])
    assert ok.any()
    assert (np.diff(np.stack(moved)[:, ok], axis=0) <= 0).all()


# ------------------------------------------------------------------- modelling
@pytest.mark.parametrize("space", ["rram", "sram", "sram9"])
def test_e1_counts_are_never_negative_or_absurd(space):
    nets = [load(name) for name in ("resnet18", "gpt2_medium")]
    chosen = space_named(space)
    some = chosen.designs(chosen.sample(60, np.random.default_rng(3)))
    layers = layer_set(nets, stride_ignored=False, groups_ignored=False)
    memory = str(chosen.parameters.fixed["memory"])
    names = ("bits_per_cell", "xbar_rows", "xbar_cols", "macros_per_tile", "tiles_per_router", "router_groups")
    structures = np.stack([some[name] for name in names], axis=1)
    found = count_layers(structures, layers.dims, layers.steps, layers.widths, Kernel.of(memory, NO_QUIRKS))
    macs = layers.dims[:, :8].prod(axis=1)
    assert (found >= 0).all()
    assert (found[:, :, :N_ENERGY] < 1000 * macs[:, None]).all()
    assert (found[:, :, CYCLES] <= macs).all()


@pytest.mark.parametrize("key", ["r_on", "r_off", "on_off_ratio"])
def test_e2_e14_no_resistance_to_get_wrong(key):
    for kind in (TiledEvaluator, TiledPhysical):
        with pytest.raises(InputError, match=key):
            kind.from_config({key: 1e3})


@pytest.mark.parametrize("bits", [-2, 7.5, 0, "7", 17, True, float("nan")])
def test_e4_e5_converter_bits_are_whole_numbers(bits):
    """Anything but 1..16 is refused; 0 does not mean ideal, that is effects.adc_resolution=false."""
    with pytest.raises(InputError, match="adc_bits"):
        TiledPhysical(adc_bits=bits)


def test_e6_needed_bits_are_reported_and_clipping_flagged(base, designs):
    assert needed_bits(128, 1, 1) == 8
    assert needed_bits(128, 1, 2) == 9
    net = [Workload("w", (linear(128, 16),))]
    for cell, needed in ((1, 8), (2, 9), (8, 15)):
        for bits in (needed - 1, needed, needed + 1):
            row = base | {"bits_per_cell": cell}
            values = TiledPhysical(adc_bits=bits).evaluate(designs([row]), net).values
            assert values["adc_bits_needed"].item() == needed
            assert values["adc_clips"].item() == (bits < needed)


def test_e6_energy_and_area_rise_with_bits_in_every_mode(base, sram, designs):
    net = [Workload("w", (linear(128, 16),))]
    table = adc_resolution()
    assert (np.diff(table.energy_j[1:]) > 0).all()
    assert (np.diff(table.area_mm2[1:]) > 0).all()
    assert table.relative_energy[5] == table.relative_area[5] == 1
    for row in (base, sram):
        for parts in ("neurosim_like", "isaac_like"):
            for share in (True, False):
                found = [
                    TiledPhysical(components=parts, adc_bits=b, effects={"adc_sharing": share})
                    .evaluate(designs([row]), net, "components").values
                    for b in range(1, 17)
                ]  # fmt: skip
                for metric in ("energy_j.adc", "area_mm2.adc"):
                    assert (np.diff([v[metric].item() for v in found]) > 0).all()


def test_e7_sharing_halves_converters_once(base, designs):
    net = [Workload("w", (linear(128, 128),))]
    four, eight = (TiledPhysical(cols_per_adc=n).evaluate(designs([base]), net, "components").values for n in (4, 8))
    assert four["area_mm2.adc"] == pytest.approx(2 * eight["area_mm2.adc"])
    for values in (four, eight):
        for total in ("energy_j", "area_mm2", "latency_s"):
            parts = sum(v for k, v in values.items() if k.startswith(total + "."))
            np.testing.assert_allclose(parts, values[total], rtol=1e-9)


def test_e8_utilisation_is_a_fraction(base, sram, designs, cnn4):
    for kind in (TiledEvaluator, TiledPhysical):
        values = kind().evaluate(designs([base, sram]), cnn4).values
        used = values["area_mm2"][:, None] * values["utilization"]
        assert ((used >= 0) & (used <= values["area_mm2"][:, None])).all()
        assert ((values["utilization"] > 0) & (values["utilization"] <= 1)).all()


def test_e9_units_are_in_the_names():
    suffixes = ("_j", "_s", "_mm2", "_ips", "_per_w", "_needed")
    without = {"tops", "utilization", "edp", "cycles", "adc_clips", "bandwidth_bound", "swap_count"}
    text = README.read_text(encoding="utf-8")
    for kind in (TiledEvaluator, TiledPhysical):
        for name in kind.provides:
            assert name.endswith(suffixes) or name in without
            assert f"`{name}`" in text, name


def test_e10_node_lowers_area(sram, designs, cnn4):
    rows = [sram | {"node_nm": node, "v_op": 0.8} for node in (45, 32, 22)]
    for kind in (TiledEvaluator, TiledPhysical):
        assert (np.diff(kind().evaluate(designs(rows), cnn4).values["area_mm2"]) < 0).all()


class DearerReads(ComponentTables):
    """Reading a global or tile buffer word costs ten times more."""

    def buffers(self, *keys):
        costs = super().buffers(*keys)
        return type(costs)(**{**vars(costs), "read_j": 10 * costs.read_j})


@pytest.mark.parametrize("kind", [TiledEvaluator, TiledPhysical])
def test_e10_read_energy_changes_only_reads(kind, sram, designs, cnn4):
    model, dear = kind(), kind()
    dear._components = DearerReads()
    a, b = (m.evaluate(designs([sram]), cnn4, "components").values for m in (model, dear))
    changed = {k for k in a if not np.allclose(a[k], b[k], rtol=1e-12, atol=0)}
    parts = {"energy_j.input_buffers", "energy_j.output_buffers", "energy_j.glb"}
    assert changed == parts | {"energy_j", "tops_per_w", "edp"}


def test_e11_absent_nodes_are_named_and_interpolated_only_when_asked(sram, designs, cnn4):
    row = designs([sram | {"node_nm": 28, "v_op": 0.8}])
    with pytest.raises(InputError, match=r"node_nm=28 .*7, 10, 14, 22, 32, 45"):
        TiledPhysical().evaluate(row, cnn4)
    between = TiledPhysical(interpolate=True).evaluate(row, cnn4).values["area_mm2"].item()
    ends = TiledPhysical().evaluate(designs([sram | {"node_nm": n, "v_op": 0.8} for n in (22, 32)]), cnn4)
    assert ends.values["area_mm2"][0] < between < ends.values["area_mm2"][1]


def test_e12_voltage_window_depends_on_the_node(sram, designs, cnn4):
    for kind in (TiledEvaluator, TiledPhysical):
        with pytest.raises(InputError, match=r"v_op=1\.1 .*node_nm=7 .*0\.8"):
            kind().evaluate(designs([sram | {"node_nm": 7, "v_op": 1.1}]), cnn4)


def test_e15_no_silent_estimator():
    """A set or a table that is absent is an error; which set was used is part of the result's key."""
    with pytest.raises(InputError, match="dummy"):
        TiledPhysical(components="dummy")
    assert TiledPhysical(components="isaac_like").cache_key()["components"] == "isaac_like"


def test_e16_the_breakdown_shows_the_sub_parts(base, designs):
    values = TiledPhysical().evaluate(designs([base]), [Workload("w", (linear(64, 64),))], "components").values
    parts = {k.partition(".")[2] for k in values if k.startswith("area_mm2.")}
    assert parts == {
        "cells", "row_drivers", "weight_drivers", "column_drivers", "adc", "shift_add", "input_buffers",
        "output_buffers", "router", "glb",
    }  # fmt: skip


def test_e18_two_by_two_by_hand(base, designs):
    """A 2 x 2 product on 3 inputs: 12 products, 8 reads of 2 rows and 2 columns per input, on one array each."""
    net = [Workload("w", (linear(2, 2, batch=3),))]
    found = counts(net[0].layers[0], (8, 32, 32, 1, 1, 1))
    assert (found[CYCLES], found[CELL_READS], found[ROWS_USED], found[COLS_USED]) == (3, 12, 2, 2)
    row = base | {"macros_per_tile": 4, "tiles_per_router": 4, "router_groups": 1, "xbar_rows": 32, "xbar_cols": 32}
    serial = TiledPhysical(effects=OFF | {"bit_serial": True}).evaluate(designs([row]), net).values
    assert serial["cycles"].item() == 8  # three inputs at once on three arrays, eight bits one after another
    assert serial["latency_s"].item() == pytest.approx(8e-9)


def test_e19_activity_changes_energy_and_never_cycles(base, sram, designs):
    shape = {"name": "l", "kind": "linear", "in_channels": 64, "out_channels": 64}
    for kind in (TiledEvaluator, TiledPhysical):
        for row in (base, sram):
            found = [
                kind().evaluate(designs([row]), [Workload("w", (Layer(**shape, mean_input=a),))]).values
                for a in (0.0, 0.3, 1.0)
            ]
            energy = [v["energy_j"].item() for v in found]
            assert 0 < energy[0] < energy[1] < energy[2] < np.inf
            assert len({v["cycles"].item() for v in found}) == 1


def test_e20_arrays_behind_one_port_share_it(sram, designs):
    """Weights for n arrays come through n / groups ports: four times the groups, a quarter of the time."""
    net = [Workload("w", (linear(4096, 4096),))]
    model = TiledPhysical(effects=OFF | {"noc_bandwidth": True})
    rows = [sram | {"router_groups": n} for n in (1, 4)]
    one, four = model.evaluate(designs(rows), net, "components").values["latency_s.weight_swap"][:, 0]
    assert one == pytest.approx(4 * four)
    assert one == pytest.approx(8 * 4096**2 / 128 * 1e-9)


def test_e21_approximations_are_stated():
    text = README.read_text(encoding="utf-8")
    for name in [f.name for kind in (Effects, Constants) for f in fields(kind)] + list(OPTIONAL):
        assert f"`{name}`" in text, name
