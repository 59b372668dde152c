"""The evaluator: the kit, known values through it, laws over designs, settings."""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_zeroskip.chip import PAPER_POLICIES, plan_and_run
from cimopt_zeroskip.evaluator import KEPT_NETWORKS, ZeroSkipEvaluator
from cimopt_zeroskip.mapping import ArraySpec, map_layers
from cimopt_zeroskip.nets import squeezenet, vgg16_trunk
from cimopt_zeroskip.profile import load_shipped, save
from cimopt_zeroskip.work import trace_work

from cimopt.errors import InputError
from cimopt.testing import EvaluatorContract
from cimopt.types import Designs, Layer, Parameter, ParameterSet, Workload
from cimopt.workloads import load

CHIP = {
    "memory": "rram", "node_nm": 32, "v_op": 0.5, "t_cycle_ns": 10, "bits_per_cell": 1, "glb_mb": 8,
    "xbar_rows": 128, "xbar_cols": 128, "rows_per_read": 8, "cols_per_adc": 8, "n_pes": 32,
    "allocation": "profile", "dataflow": "block",
}  # fmt: skip
# One convolution whose ones are drawn: small enough for many designs.
SMALL = Workload("small", (Layer("c", "conv", 64, 64, (3, 3), padding=(1,) * 4, out_map=(14, 14)),))


def _designs(**choices) -> Designs:
    """All values of the named parameters one by one (same length), the rest from `CHIP`."""
    fixed = {k: v for k, v in CHIP.items() if k not in choices}
    parameters = tuple(Parameter(k, tuple(dict.fromkeys(v))) for k, v in choices.items())
    rows = zip(*choices.values(), strict=True)
    genes = [[p.choices.index(v) for p, v in zip(parameters, row, strict=True)] for row in rows]
    return Designs(ParameterSet(parameters, fixed), np.array(genes))


class TestZeroSkip(EvaluatorContract):
    evaluator = ZeroSkipEvaluator()
    space = "zeroskip"
    workloads = (squeezenet(), "alexnet")
    n_designs = 16


class TestZeroSkipSystem(EvaluatorContract):
    evaluator = ZeroSkipEvaluator(system=True, include_linear=True, fidelity="totals")
    space = "zeroskip"
    workloads = ("alexnet",)
    n_designs = 16


def test_a_chip_is_what_the_parts_say():
    """The four policies of the paper on SqueezeNet's real activations, through the evaluator and by hand."""
    profile = load_shipped("squeezenet")
    works = [trace_work(profile, i, m, [0]) for i, m in enumerate(map_layers(profile.workload.layers, ArraySpec()))]
    for policy, dataflow, skip in PAPER_POLICIES.values():
        if not skip:
            continue
        metrics = ZeroSkipEvaluator().evaluate(_designs(allocation=[policy], dataflow=[dataflow]), [squeezenet()])
        chip = plan_and_run(works, 32 * 64, policy, dataflow)
        assert metrics.values["cycles"].item() == chip.cycles
        assert metrics.values["throughput_ips"].item() == pytest.approx(1e8 / chip.cycles)
        assert metrics.values["latency_s"].item() == pytest.approx(chip.layer_cycles.sum() * 1e-8)
        assert metrics.values["utilization"].item() == pytest.approx(chip.utilization)


def test_golden_bottleneck_on_real_activations():
    """SqueezeNet, one photo, 2048 arrays: recorded from this model (version 1), exact integers of the trace."""
    designs = _designs(allocation=["weight", "profile", "profile"], dataflow=["layer", "layer", "block"])
    cycles = ZeroSkipEvaluator().evaluate(designs, [squeezenet()]).values["cycles"][:, 0]
    assert cycles.tolist() == [61456.0, 37784.0, 27152.0]
    dense = ZeroSkipEvaluator(skip=False).evaluate(designs, [squeezenet()]).values["cycles"][:, 0]
    assert (dense > cycles).all()


def test_too_few_pes_give_an_amount_and_no_metrics():
    """PUMA issue 65: 178 tiles needed, 176 there. VGG16's trunk needs 7192 arrays; 112 PEs have 7168."""
    metrics = ZeroSkipEvaluator(fidelity="totals").evaluate(_designs(n_pes=[112, 113]), [vgg16_trunk()])
    assert metrics.reason.tolist() == [1, 0]
    assert all(np.isnan(v[0]).all() and np.isfinite(v[1]).all() for v in metrics.values.values())
    assert metrics.violations["arrays"] == pytest.approx([7192 / 7168 - 1, 7192 / 7232 - 1])
    assert metrics.outcome(0).state == "infeasible"
    assert "do not fit" in metrics.outcome(0).reason
    assert (metrics.limits["arrays"].value[0], metrics.limits["arrays"].limit[0]) == (7192, 7168)


@pytest.mark.parametrize("dataflow", ["layer", "block"])
def test_the_optimal_bottleneck_is_never_above_another_and_never_grows_with_pes(dataflow):
    pes = [12, 16, 24, 32, 48]
    cycles = {}
    for policy in ("weight", "op_count", "profile", "optimal"):
        designs = _designs(n_pes=pes, allocation=[policy] * len(pes), dataflow=[dataflow] * len(pes))
        cycles[policy] = ZeroSkipEvaluator().evaluate(designs, [squeezenet()]).values["cycles"][:, 0]
    assert (np.diff(cycles["optimal"]) <= 0).all()
    for policy in cycles:
        assert (cycles["optimal"] <= cycles[policy]).all()


def test_skipping_and_wider_reads_are_never_slower():
    """With the exact allocation: the greedy looks at totals only and may lose a little."""
    reads = [2, 4, 8, 16, 64]
    designs = _designs(rows_per_read=reads, allocation=["optimal"] * 5)
    skip, dense = (ZeroSkipEvaluator(skip=s).evaluate(designs, [SMALL]).values["cycles"][:, 0] for s in (True, False))
    assert (np.diff(skip) <= 0).all()
    assert (skip <= dense).all()
    used = ZeroSkipEvaluator(skip=False, used_rows_only=True).evaluate(designs, [SMALL]).values["cycles"][:, 0]
    assert (skip <= used).all()
    assert (used <= dense).all()


def test_floor_of_empty_planes_is_stated_and_finite():
    """All-zero inputs take one read per plane and column (floor 1), or none at all (floor 0)."""
    from cimopt_zeroskip.synthetic import SyntheticProfile

    layers = SMALL.layers
    mapped = map_layers(layers, ArraySpec())
    for floor in (0, 1):
        profile = SyntheticProfile("zeros", layers, ((0.0,) * 8,))
        work = trace_work(profile, 0, map_layers(layers, ArraySpec(floor=floor))[0], [0])
        assert work.block_total.tolist() == [floor * 64 * 196] * mapped[0].blocks
    ones = SyntheticProfile("ones", layers, ((1.0,) * 8,))
    work = trace_work(ones, 0, mapped[0], [0])
    assert work.block_total.tolist() == [1024 * 196] * 4 + [512 * 196]  # the last block holds 64 rows


def _one_block(density: float):
    """One array, one patch, inputs of one density; metrics with components, and the tables' costs."""
    from cimopt_components import ComponentTables

    one = Workload("one", (Layer("c", "conv", 128, 16),))
    evaluator = ZeroSkipEvaluator()
    evaluator.network(one).profile.densities = ((density,) * 8,)
    evaluator.network(one).profile.forget()
    metrics = evaluator.evaluate(_designs(n_pes=[1]), [one], "components")
    tables = ComponentTables()
    array = tables.arrays("rram", *(np.array([v]) for v in (32, 0.5, 128, 128)))
    return {name: values.item() for name, values in metrics.values.items()}, array, tables


def test_energy_of_empty_inputs_by_hand():
    """No cell and no row is driven; 64 cycles of 16 converters of 4 bits (eight binary cells are nine levels)."""
    from cimopt_components import adc_resolution

    values, array, _ = _one_block(0.0)
    adc = adc_resolution()
    assert values["cycles"] == 64
    assert values["energy_j.adc"] == pytest.approx(64 * 16 * array.adc_read_j.mean() * adc.relative_energy[4])
    assert values["energy_j.cells"] == values["energy_j.row_drivers"] == 0
    assert values["area_mm2.adc"] == pytest.approx(64 * array.adcs_area_mm2[0] * adc.relative_area[4] / 8)
    assert values["area_mm2.cells"] == pytest.approx(64 * 128 * 128 * array.cell_area_mm2[0])
    assert values["area_mm2.row_drivers"] == pytest.approx(64 * array.rows_area_mm2[0])


def test_energy_of_full_inputs_by_hand():
    """128 rows x 8 planes of ones, each a pulse of 1/255 of an 8-bit input: every cell once, every row 8 times."""
    values, array, tables = _one_block(1.0)
    assert values["cycles"] == 1024
    ones, mean_cell = 128 * 8, 0.503456
    off, on = array.cell_read_j[0, 2] / 255, array.cell_read_j[0, 3] / 255
    assert values["energy_j.cells"] == pytest.approx(ones * 128 * (off + mean_cell * (on - off)))
    assert values["energy_j.row_drivers"] == pytest.approx(ones * 8 * array.row_read_j[0, 2] / 255)
    buffer = tables.buffers(*(np.array([v]) for v in (128, 512, 32)))
    words = 128 * 8 / 128 + 16 * (8 + 8 + 7) / 128  # inputs and partial sums of 23 bits, written and read
    once = (buffer.read_j + buffer.write_j + 2 * buffer.address_j).item()
    assert values["energy_j.pe_buffers"] == pytest.approx(words * once)
    assert values["energy_j.router"] == pytest.approx(words * tables.routers(np.array([32])).transfer_j.item())
    glb = tables.buffers(*(np.array([v]) for v in (2048, 8 * 4096, 32)))
    read, write = (glb.read_j + glb.address_j).item(), (glb.write_j + glb.address_j).item()
    assert values["energy_j.glb"] == pytest.approx(0.5 * read + 16 * 8 / 2048 * write)
    leak = array.rows_leak_w + array.cols_leak_w + 128 * 128 * array.cell_leak_w
    assert values["energy_j.leakage"] > 64 * 1024 * 1e-8 * leak.item()


def test_energy_of_a_wide_layer_counts_every_array():
    """Twice the outputs take twice the arrays side by side: cells, rows and converters double."""
    narrow, wide = (Workload(f"w{n}", (Layer("c", "conv", 128, n, out_map=(5, 1)),)) for n in (16, 32))
    parts = []
    for workload in (narrow, wide):
        evaluator = ZeroSkipEvaluator()
        evaluator.network(workload).profile.densities = ((0.5,) * 8,)
        metrics = evaluator.evaluate(_designs(n_pes=[1]), [workload], "components")
        parts.append([metrics.values[f"energy_j.{k}"].item() for k in ("cells", "row_drivers", "adc")])
    assert parts[1] == pytest.approx([2 * v for v in parts[0]])


def test_layers_tell_stall_and_utilisation_as_fig_9():
    metrics = ZeroSkipEvaluator().evaluate(_designs(n_pes=[32]), [squeezenet()], "layers")
    table = metrics.layers["squeezenet"].values
    busy = table["arrays"] * table["cycles"] - table["stall"]
    assert table["utilization"] == pytest.approx(busy / (table["arrays"] * table["cycles"].max()))
    assert table["cycles"].max() == metrics.values["cycles"].item()
    assert table["arrays"].sum() <= 2048
    assert metrics.values["utilization"].item() == pytest.approx(busy.sum() / (2048 * table["cycles"].max()))


def test_memory_does_not_grow_with_networks():
    """A search over networks: the last ones are kept, and one met again gives the same."""
    model = ZeroSkipEvaluator(fidelity="totals")
    nets = [Workload("w", (Layer("c", "conv", 8 + i, 8, (3, 3), out_map=(4, 4)),)) for i in range(KEPT_NETWORKS + 3)]
    first = model.evaluate(_designs(n_pes=[32]), nets[:1]).values["energy_j"].item()
    for net in nets:
        model.evaluate(_designs(n_pes=[32]), [net])
    assert len(model._networks) == KEPT_NETWORKS
    assert model.evaluate(_designs(n_pes=[32]), nets[:1]).values["energy_j"].item() == first


def test_layers_tell_the_policy_of_grouped_layers():
    """32 groups of 3x3 on 128 x 128: 14 share an array, or one array each."""
    net = Workload("w", (Layer("dw", "conv", 32, 32, (3, 3), groups=32, out_map=(8, 8)), SMALL.layers[0]))
    for policy, together in (("block_diagonal", 14), ("one_group_per_array", 1)):
        evaluator = ZeroSkipEvaluator(grouped_policy=policy)
        table = evaluator.evaluate(_designs(n_pes=[32]), [net], "layers").layers["w"]
        assert table.values["groups_per_array"].tolist() == [[together, 1]]
        assert evaluator.cache_key()["grouped_policy"] == policy


def test_system_limits_are_off_by_default():
    designs = _designs(n_pes=[384])
    off, on = (
        ZeroSkipEvaluator(system=s, fidelity="totals").evaluate(designs, [load("resnet18")]) for s in (False, True)
    )
    assert set(off.violations) == {"arrays"}
    assert "network_cycles" not in off.values
    assert set(on.violations) == {"arrays", "pes", "glb"}
    slow = ZeroSkipEvaluator(system=True, fidelity="totals", network={"cycles_per_array_cycle": 1})
    limited = slow.evaluate(designs, [load("resnet18")])
    assert limited.values["cycles"].item() == limited.values["network_cycles"].item() > on.values["cycles"].item()
    assert on.values["cycles"].item() >= off.values["cycles"].item()
    assert limited.values["utilization"].item() < off.values["utilization"].item()


def test_a_profile_file_is_used_and_changes_the_cache_key(tmp_path):
    profile = load_shipped("squeezenet")
    save(profile, tmp_path / "mine.npz")
    mine = ZeroSkipEvaluator(profiles={"squeezenet": str(tmp_path / "mine.npz")})
    drawn = ZeroSkipEvaluator(profiles={"squeezenet": "synthetic"})
    cycles = [
        e.evaluate(_designs(n_pes=[32]), [squeezenet()]).values["cycles"].item()
        for e in (mine, drawn, ZeroSkipEvaluator())
    ]
    assert cycles[0] == cycles[2] != cycles[1]
    assert drawn.network(squeezenet()).synthetic
    assert not mine.network(squeezenet()).synthetic
    assert mine.cache_key() != ZeroSkipEvaluator().cache_key()


def test_what_cannot_be_mapped_is_one_sentence():
    attention = Workload("att", (Layer("q", "linear", 64, 64), Layer("qk", "matmul", 64, 64, dynamic=True)))
    with pytest.raises(InputError, match="dynamic_layers=exclude"):
        ZeroSkipEvaluator().evaluate(_designs(n_pes=[32]), [attention])
    with pytest.raises(InputError, match="include_linear=true"):
        ZeroSkipEvaluator(dynamic_layers="exclude").evaluate(_designs(n_pes=[32]), [attention])
    both = ZeroSkipEvaluator(dynamic_layers="exclude", include_linear=True)
    assert both.evaluate(_designs(n_pes=[32]), [attention]).ok.all()


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"fidelity": "trance"}, "did you mean 'trace'"),
        ({"profiles": {"a": "squezenet"}}, "did you mean 'squeezenet'"),
        ({"skip": 1}, "skip=1"), ({"images": 0}, "images=0"),
        ({"network": {"link_bit": 3}}, "did you mean 'link_bits'"),
        ({"grouped_policy": "dense"}, "block_diagonal"), ({"floor": 3}, "floor"), ({"arrays_per_pe": 0}, "arrays_per_pe=0"),
        ({"profiles": {"a": 1}}, "must be text"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(setting, named):
    with pytest.raises(InputError, match=named):
        ZeroSkipEvaluator.from_config(setting)


@pytest.mark.parametrize(
    ("choice", "named"),
    [({"allocation": ["wieght"]}, "did you mean 'weight'"), ({"dataflow": ["blok"]}, "did you mean 'block'")],
)
def test_wrong_parameter_values_are_refused(choice, named):
    with pytest.raises(InputError, match=named):
        ZeroSkipEvaluator().evaluate(_designs(**choice), [SMALL])
