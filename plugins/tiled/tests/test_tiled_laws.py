"""What must hold for every design, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_components import ComponentTables
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.layers import layer_set
from cimopt_tiled.physical import TiledPhysical
from cimopt_tiled.physical_prices import NO_QUIRKS
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import FIG_CYCLES, FIG_UTILIZATION, Kernel, sum_layers
from cimopt_tiled.work import DRAM, PROGRAM_SUMS, WorkKernel, layer_work
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt.types import Layer, Workload

ROWS = (16, 32, 64, 128, 256, 512)
ARRAYS = st.tuples(st.sampled_from(ROWS), st.sampled_from(ROWS))
UNITS = st.tuples(
    st.sampled_from((2, 4, 8, 16, 32, 64, 128)),
    st.sampled_from((2, 4, 8, 16, 32, 64)),
    st.sampled_from((1, 2, 4, 6, 8)),
)
BITS = st.integers(1, 8)
MEMORY = st.sampled_from(("rram", "sram"))


@st.composite
def layers(draw) -> Layer:
    groups = draw(st.sampled_from((1, 1, 2, 8)))
    kernel = draw(st.sampled_from((1, 3, 5)))
    size = draw(st.integers(1, 30))
    return Layer(
        name="layer",
        kind="conv",
        in_channels=groups * draw(st.integers(1, 200)),
        out_channels=groups * draw(st.integers(1, 200)),
        kernel=(kernel, kernel),
        groups=groups,
        out_map=(size, draw(st.integers(1, 30))),
        batch=draw(st.integers(1, 3)),
        repeats=draw(st.integers(1, 4)),
    )


def sums_of(workload: Workload, structure: tuple[int, ...], memory: str) -> tuple[np.ndarray, np.ndarray]:
    found = layer_set([workload], stride_ignored=True, groups_ignored=True)
    sums, figures = sum_layers(
        np.array([structure]),
        found.dims,
        found.steps,
        found.widths,
        found.basis,
        found.driven,
        Kernel.of(memory, Quirks()),
    )
    return sums[0, 0], figures[0, 0]


@settings(max_examples=100, deadline=None)
@given(st.lists(layers(), min_size=1, max_size=4), ARRAYS, UNITS, BITS, MEMORY)
def test_evaluated_macs_are_the_workloads(some, array, units, bits, memory):
    bits = 1 if memory == "sram" else bits
    workload = Workload("w", tuple(some))
    sums, figures = sums_of(workload, (bits, *array, *units), memory)
    assert sums[0] == workload.macs * -(-8 // bits)
    cells = np.prod(array) * np.prod(units)
    # No cell can work more than once a cycle.
    assert 0 < figures[FIG_UTILIZATION] <= 1
    assert figures[FIG_CYCLES] >= workload.macs * -(-8 // bits) / cells
    assert (sums >= 0).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(layers(), min_size=1, max_size=4), BITS)
def test_mapped_cells_are_weights_times_slices(some, bits):
    workload = Workload("w", tuple(some))
    exact = layer_set([workload], stride_ignored=True, groups_ignored=False)
    assert exact.needed_cells(np.array([bits])).item() == workload.weights * -(-8 // bits)
    published = layer_set([workload], stride_ignored=True, groups_ignored=True)
    assert published.needed_cells(np.array([bits])) <= exact.needed_cells(np.array([bits]))


@settings(max_examples=60, deadline=None)
@given(st.lists(layers(), min_size=1, max_size=3), ARRAYS, UNITS, MEMORY)
def test_sram_writes_each_weight_bit_and_rram_none(some, array, units, memory):
    workload = Workload("w", tuple(some))
    sums, _ = sums_of(workload, (1, *array, *units), memory)
    cell_writes, dram_bits = sums[12], sums[-1]
    if memory == "rram":
        assert cell_writes == dram_bits == 0
    else:
        assert dram_bits >= workload.weights * 8
        assert cell_writes > 0


@pytest.mark.parametrize("name", ["xbar_rows", "xbar_cols", "macros_per_tile", "tiles_per_router", "router_groups"])
def test_more_arrays_are_never_slower(name, base, sram, designs, cnn4, evaluator):
    steps = {
        "xbar_rows": (128, 256, 512),
        "xbar_cols": (32, 64, 128, 256, 512),
        "macros_per_tile": (8, 16, 32, 64),
        "tiles_per_router": (8, 16, 32, 64),
        "router_groups": (1, 2, 4, 8),
    }
    for start in (base | {"router_groups": 32, "macros_per_tile": 128}, sram):
        rows = [start | {name: value} for value in steps[name]]
        metrics = evaluator.evaluate(designs(rows), cnn4)
        cycles = metrics.values["cycles"][metrics.ok]
        assert len(cycles) >= 2
        assert (np.diff(cycles, axis=0) <= 0).all()


def test_a_larger_global_buffer_changes_no_count(sram, designs, cnn4, evaluator):
    rows = [sram | {"glb_mb": mb} for mb in (1.0, 8.0, 64.0)]
    values = evaluator.evaluate(designs(rows), cnn4, "components").values
    for name in ("cycles", "energy_j.dram", "energy_j.router", "energy_j.cells"):
        assert (values[name] == values[name][0]).all()
    assert (np.diff(values["area_mm2"]) > 0).all()


@pytest.mark.parametrize("detail", ["components", "layers"])
def test_breakdowns_sum_to_totals(detail, base, sram, designs, cnn4, evaluator):
    for rows in ([base, base | {"v_op": 0.7, "glb_mb": 1.0}], [sram, sram | {"node_nm": 22, "v_op": 0.8}]):
        metrics = evaluator.evaluate(designs(rows), cnn4, detail)
        for total in ("energy_j", "area_mm2"):
            parts = [v for k, v in metrics.values.items() if k.startswith(total + ".")]
            assert len(parts) == 9
            np.testing.assert_allclose(sum(parts), metrics.values[total], rtol=1e-12)


def test_layers_sum_to_workloads(base, sram, designs, cnn4, evaluator):
    deep = Workload("deep", tuple(Layer(f"l{i}", "conv", 64, 64, (3, 3), out_map=(14, 14), repeats=i) for i in (1, 3)))
    for row in (base, sram):
        metrics = evaluator.evaluate(designs([row, row | {"v_op": 0.8}]), [*cnn4, deep], "layers")
        for w, name in enumerate(metrics.workloads):
            table = metrics.layers[name]
            for metric in ("energy_j", "latency_s", "cycles", "energy_j.glb"):
                np.testing.assert_allclose(table.values[metric].sum(axis=1), metrics.values[metric][:, w], rtol=1e-12)
            np.testing.assert_allclose(table.values["utilization"].max(axis=1), metrics.values["utilization"][:, w])
            assert table.values["cycles"].shape == (2, len(table.names))
    assert metrics.layers["deep"].names == ("l1", "l3")


class Doubled(ComponentTables):
    """Every energy and area twice as large."""

    def arrays(self, *keys):
        return _doubled(super().arrays(*keys))

    def buffers(self, *keys):
        return _doubled(super().buffers(*keys))

    def routers(self, *keys):
        return _doubled(super().routers(*keys))


def _doubled(costs):
    return type(costs)(**{name: 2 * value for name, value in vars(costs).items()})


def test_doubling_every_table_entry_doubles_the_total(base, sram, designs, cnn4, evaluator):
    for row in (base, sram):
        twice = TiledEvaluator()
        twice._components = Doubled()
        one = evaluator.evaluate(designs([row]), cnn4, "components").values
        two = twice.evaluate(designs([row]), cnn4, "components").values
        np.testing.assert_allclose(two["area_mm2"], 2 * one["area_mm2"], rtol=1e-12)
        # DRAM energy is a constant of the model, not a table entry.
        np.testing.assert_allclose(two["energy_j"], 2 * one["energy_j"] - one["energy_j.dram"], rtol=1e-12)


def test_doubling_every_table_entry_doubles_the_physical_total(base, sram, designs, cnn4):
    """Without shift-and-add, which is no table entry, and buffer rates, which would double too."""
    effects = dict.fromkeys(("shift_add", "buffer_bandwidth", "glb_bandwidth"), False)
    for row in (base, sram):
        one, two = TiledPhysical(effects=effects), TiledPhysical(effects=effects)
        two._components = Doubled()
        a, b = (model.evaluate(designs([row]), cnn4, "components").values for model in (one, two))
        np.testing.assert_allclose(b["area_mm2"], 2 * a["area_mm2"], rtol=1e-12)
        fixed = a["energy_j.dram"] + a["energy_j.dram_spill"]
        np.testing.assert_allclose(b["latency_s"], a["latency_s"], rtol=1e-12)
        np.testing.assert_allclose(b["energy_j"], 2 * a["energy_j"] - fixed, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(layers(), min_size=1, max_size=3), ARRAYS, UNITS, BITS, MEMORY, st.booleans())
def test_physical_work_conserves_products_and_cells(some, array, units, bits, memory, pack):
    """Products and, once per inference, weight bits are the workload's; copies fit beside all layers."""
    bits = 1 if memory == "sram" else bits
    workload = Workload("w", tuple(some))
    found = layer_set([workload], stride_ignored=False, groups_ignored=False, mark_dynamic=True)
    structure = np.array([(bits, *array, *units)])
    cells = np.prod(array) * np.prod(units)
    slices = -(-8 // bits)
    kernel = WorkKernel(Kernel.of(memory, NO_QUIRKS, pack), memory == "rram" and workload.weights * slices <= cells)
    cycles, work, slowed, sums, figures = layer_work(structure, found, kernel)
    assert sums[0, 0, 0] == pytest.approx(workload.macs * slices)
    assert (cycles > 0).all()
    assert (work >= 0).all()
    assert (slowed >= 1).all()
    assert 0 < figures[0, 0, 0] <= 1 + 1e-9
    if memory == "sram":
        repeats = found.basis[:, 0, 0, 0]
        assert work[0, :, DRAM] @ repeats == pytest.approx(8 * workload.weights, rel=1e-5)
    elif kernel.resident:
        programmed = sums[0, 0, PROGRAM_SUMS]
        assert workload.weights * slices <= programmed * (1 + 1e-9)
        assert programmed <= cells * (1 + 1e-6)
