"""Products of two activations: one operand is written for every image, and what that costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cimopt_components import ComponentTables
from cimopt_zeroskip.chip import plan_and_run
from cimopt_zeroskip.evaluator import ZeroSkipEvaluator
from cimopt_zeroskip.mapping import ArraySpec, map_layers
from cimopt_zeroskip.nets import squeezenet
from cimopt_zeroskip.synthetic import dynamic_profile
from cimopt_zeroskip.system import NetworkSpec, network_bounds
from cimopt_zeroskip.work import trace_work
from cimopt_zeroskip.writing import WriteSpec, writes_of, written

from cimopt.errors import InputError
from cimopt.testing import EvaluatorContract, space_named
from cimopt.types import Designs, Layer, Parameter, ParameterSet, Workload
from cimopt.workloads import load

# Two heads of 64 values: keys of 40 tokens are written, 30 queries are multiplied with them.
SCORES = Layer("qk", "matmul", 128, 80, groups=2, out_map=(30, 1), dynamic=True)
ATTENTION = Workload("attention", (Layer("q", "linear", 128, 128, out_map=(30, 1)), SCORES))
ROW = {
    "memory": "rram", "node_nm": 32, "v_op": 0.5, "t_cycle_ns": 10, "bits_per_cell": 1, "glb_mb": 8,
    "xbar_rows": 128, "xbar_cols": 128, "rows_per_read": 8, "cols_per_adc": 8, "n_pes": 8,
    "allocation": "profile", "dataflow": "block",
}  # fmt: skip


def _designs(**change) -> Designs:
    lists = {k: v if isinstance(v, list) else [v] for k, v in (ROW | change).items()}
    n = max(map(len, lists.values()))
    genes = np.array([[min(i, len(v) - 1) for v in lists.values()] for i in range(n)])
    return Designs(ParameterSet(tuple(Parameter(k, tuple(v)) for k, v in lists.items())), genes)


def _writing(**settings) -> ZeroSkipEvaluator:
    return ZeroSkipEvaluator(dynamic_layers="write", include_linear=True, **settings)


class TestWriting(EvaluatorContract):
    evaluator = _writing(system=True, fidelity="totals")
    space = "zeroskip"
    workloads = (ATTENTION,)
    n_designs = 16


def _inner(layer: Layer = SCORES):
    net = Workload("w", (layer,))
    return trace_work(dynamic_profile(net), 0, map_layers(net.layers, ArraySpec())[0], [0])


@pytest.mark.parametrize("system", [False, True])
def test_networks_of_stored_weights_are_as_before(system):
    """Every metric and every column per layer, to the last bit; nothing is written."""
    space = space_named("zeroskip")
    some = space.designs(space.sample(12, np.random.default_rng(1)))
    nets = [squeezenet(), load("alexnet")]
    before, after = (
        ZeroSkipEvaluator(system=system, dynamic_layers=how).evaluate(some, nets, "layers")
        for how in ("refuse", "write")
    )
    for name, values in before.values.items():
        assert np.array_equal(values, after.values[name], equal_nan=True), name
    for net, table in before.layers.items():
        for name, values in table.values.items():
            assert np.array_equal(values, after.layers[net].values[name], equal_nan=True), name
        assert np.nanmax(table.values["write_cycles"]) == 0
    assert np.nanmax(after.values["energy_j.dynamic_writes"]) == 0


def test_rows_are_written_one_after_another():
    """RRAM: 64 rows of 8.52 pulses of 50 ns at 10 ns a cycle are 2727 cycles; SRAM: a cycle a row."""
    table = _writing().evaluate(_designs(), [ATTENTION], "layers").layers["attention"]
    assert table.values["write_cycles"].tolist() == [[0, np.ceil(64 * 42.6)]]
    assert WriteSpec().row_cycles("sram", 10) == 1
    assert WriteSpec().row_cycles("rram", 10) == pytest.approx(42.6)


@pytest.mark.parametrize("dataflow", ["layer", "block"])
def test_operations_start_when_the_operand_is_written(dataflow):
    """Copies share the operations and not the writing; the slowest block decides."""
    inner = _inner()
    work = written([inner], 3.5)[0]
    assert work.write_cycles == 3.5 * 64
    for copies in (1, 2, 7):
        assert work.layer_cycles(copies) == inner.layer_cycles(copies) + 224
        each = np.full(inner.mapped.blocks, copies)
        assert work.block_cycles(each).tolist() == (inner.block_cycles(each) + 224).tolist()
        assert work.shared_cycles(copies) == inner.layer_cycles(copies)


def test_write_time_grows_with_rows_and_not_with_columns():
    cycles = [
        written([_inner(Layer("l", "matmul", rows, 16, out_map=(4, 1), dynamic=True))], 42.6)[0].write_cycles
        for rows in (8, 9, 64, 128, 129, 512)
    ]
    assert (np.diff(cycles) >= 0).all()
    assert cycles[3] == cycles[-1] == np.ceil(128 * 42.6)  # beyond one array, blocks are written side by side
    wide = written([_inner(Layer("l", "matmul", 64, 512, out_map=(4, 1), dynamic=True))], 42.6)[0]
    assert wide.write_cycles == cycles[2]


def test_energy_of_writing_by_hand():
    """Every copy: 128 rows x 40 keys x 8 cells a head group, and a driver action for every row of every array."""
    model = _writing()
    metrics = model.evaluate(_designs(), [ATTENTION], "layers")
    table = metrics.layers["attention"].values
    works = model._works(ATTENTION, ROW)
    run = model._run(works, ROW)
    mapped, copies = works[1].mapped, run.copies[1]
    # Two heads do not share an array: 64 rows fit twice, but 2 x 40 keys x 8 cells are more than 128 columns.
    assert (mapped.groups_per_array, mapped.block_rows.tolist(), mapped.arrays_per_block) == (1, [64, 64], 3)
    writes = writes_of(works[1], copies)
    assert writes.cells == copies.sum() * 64 * 40 * 8
    assert writes.rows == copies.sum() * 64 * 3
    assert writes.bits == copies.sum() * 64 * 40 * 8
    array = ComponentTables().arrays("rram", *(np.array([v]) for v in (32, 0.5, 128, 128)))
    off, on = array.cell_write_j[0, 2], array.cell_write_j[0, 3]
    cell = off + 0.503456 * (on - off)
    expected = 8.52 * (writes.cells * cell + writes.rows * array.row_write_j[0, 2])
    assert metrics.values["energy_j.dynamic_writes"].item() == pytest.approx(expected)
    assert table["energy_j"].sum() == pytest.approx(metrics.values["energy_j"].item())


def test_the_operand_takes_the_way_of_the_inputs():
    """More buffer words, transfers and reads of the global buffer, by the operand's bits once per copy."""
    inner = _inner()
    for copies in (1, 3):
        given = np.full(inner.mapped.blocks, copies)
        assert writes_of(inner, given).bits == copies * SCORES.weights * 8
    stored = replace(inner, mapped=replace(inner.mapped, layer=replace(SCORES, dynamic=False)))
    run = plan_and_run([inner], 64, "profile", "layer")
    dynamic, static = (network_bounds([work], run, NetworkSpec(), 4) for work in (inner, stored))
    for port in ("pe_input", "buffer_output", "bisection"):
        assert dynamic[port] > static[port]
    for port in ("pe_output", "vector_input"):
        assert dynamic[port] == static[port]
    # A header and 64 rows x 40 keys x 8 bits in 128-bit flits for both heads, over two ports at ten times the clock.
    flits = 2 * run.copies[0].max() * (64 * 40 * 8 / 128 + 1)
    assert dynamic["buffer_output"] - static["buffer_output"] == pytest.approx(flits / 20)


def test_products_take_arrays_of_their_own():
    model = _writing()
    needed = [
        model.precheck(_designs(n_pes=1), [net])["arrays"].item() for net in (ATTENTION, Workload("s", (SCORES,)))
    ]
    stored = ZeroSkipEvaluator(dynamic_layers="exclude", include_linear=True)
    alone = stored.precheck(_designs(n_pes=1), [ATTENTION])["arrays"].item()
    assert needed[0] + 1 == pytest.approx(alone + 1 + needed[1] + 1)
    few = model.evaluate(_designs(n_pes=1, xbar_rows=64, xbar_cols=32), [ATTENTION])
    assert few.outcome(0).state == "infeasible"
    assert few.violations["arrays"].item() > 0


def test_every_product_is_evaluated():
    for name in ("mobilebert", "vision_transformer"):
        net = load(name)
        mapped = _writing().network(net).mapped(ArraySpec())
        assert sum(m.macs for m in mapped) == net.macs
        assert {m.layer.name for m in mapped if m.layer.dynamic} == {one.name for one in net.layers if one.dynamic}


@pytest.mark.parametrize("memory", ["rram", "sram"])
def test_writing_is_a_floor_that_copies_do_not_lower(memory):
    """More PEs are never slower with the exact allocation, and never faster than writing."""
    change = {"memory": memory, "allocation": "optimal"} | ({"v_op": 0.8} if memory == "sram" else {})
    pes = [2, 4, 8, 16, 64]
    metrics = _writing().evaluate(_designs(n_pes=pes, **change), [ATTENTION], "layers")
    ok = metrics.ok
    cycles = metrics.values["cycles"][ok, 0]
    assert len(cycles) >= 3
    assert (np.diff(cycles) <= 0).all()
    assert (cycles > metrics.layers["attention"].values["write_cycles"][ok].max(axis=1)).all()
    for policy in ("weight", "op_count", "profile"):
        other = _writing().evaluate(_designs(n_pes=pes, **(change | {"allocation": policy})), [ATTENTION])
        assert (cycles <= other.values["cycles"][ok, 0]).all()


def test_a_shorter_pulse_writes_faster_and_cheaper():
    slow, fast = (_writing(write=w).evaluate(_designs(), [ATTENTION]).values for w in ({}, {"rram_write_pulses": 1}))
    assert fast["cycles"].item() < slow["cycles"].item()
    assert fast["energy_j"].item() < slow["energy_j"].item()
    assert _writing(write={"rram_pulse_s": 1e-9}).cache_key() != _writing().cache_key()


def test_time_of_writing_follows_the_clock():
    """At twice the clock a row of RRAM takes twice the cycles: the stage knows memory and clock."""
    values = _writing().evaluate(_designs(t_cycle_ns=[10, 5]), [Workload("s", (SCORES,))], "layers")
    cycles = values.layers["s"].values["write_cycles"][:, 0]
    assert cycles.tolist() == [np.ceil(64 * 42.6), np.ceil(64 * 85.2)]


def test_products_are_drawn_and_say_so():
    mixed = Workload("squeezenet", (*squeezenet().layers[:3], SCORES))
    model = _writing(profiles={"squeezenet": "squeezenet"})
    assert model.network(mixed).synthetic
    assert not model.network(mixed).profile.synthetic
    assert model.evaluate(_designs(n_pes=16), [mixed]).ok.all()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"write": {"rram_pulses": 3}}, "did you mean 'rram_pulse_s'"),
        ({"write": {"rram_pulse_s": 0}}, "rram_pulse_s=0"),
        ({"dynamic_layers": "writes"}, "did you mean 'write'"),
    ],
)
def test_wrong_settings_are_refused(settings, named):
    with pytest.raises(InputError, match=named):
        ZeroSkipEvaluator.from_config(settings)
