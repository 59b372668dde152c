"""Cases M1-M16 met by people of this field in other tools, on zero-skipping arrays; numbers as in the tiled model's tests.

Some are elsewhere in this folder: M7 (a chip two arrays too small) and M12 (its neighbour keeps its metrics) in
`test_too_few_pes_give_an_amount_and_no_metrics`, M15 (operands that are written) in `test_zeroskip_writing.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cimopt_zeroskip import ArraySpec, map_layer, simulate
from cimopt_zeroskip.evaluator import ZeroSkipEvaluator
from cimopt_zeroskip.reads import read_block
from cimopt_zeroskip.work import UniformWork, uniform_work

from cimopt.testing import space_named
from cimopt.types import Designs, Layer, Workload
from cimopt.workloads import load

WIDE = {"xbar_rows": 256, "xbar_cols": 256, "bits_per_cell": 8}


def linear(inputs: int, outputs: int, **more) -> Layer:
    return Layer("fc", "linear", inputs, outputs, **more)


def dense(layer: Layer, **array) -> UniformWork:
    """Every row read, whatever the inputs."""
    return uniform_work(map_layer(layer, ArraySpec(skip=False, **array)))


def sampled(n: int, seed: int, **fixed):
    space = space_named("zeroskip")
    genes = space.sample(n, np.random.default_rng(seed))
    for name, value in fixed.items():
        at = space.names.index(name)
        genes[:, at] = space.parameters.parameters[at].choices.index(value)
    return space, genes


def test_m1_partly_filled_last_array():
    """1152 x 1024 on 256 x 256, one cell a weight: 5 blocks of 4 arrays, 0.900 of their cells."""
    mapped = map_layer(linear(1152, 1024), ArraySpec(**WIDE))
    assert (mapped.blocks, mapped.arrays_per_block, mapped.arrays) == (5, 4, 20)
    assert mapped.cell_use == pytest.approx(0.9)
    assert mapped.block_rows.tolist() == [256] * 4 + [128]


def test_m2_layer_smaller_than_an_array():
    mapped = map_layer(linear(10, 10), ArraySpec(**WIDE))
    assert mapped.arrays == 1
    assert mapped.cell_use == pytest.approx(100 / 65_536)


def test_m4_cells_per_weight_are_rounded_up():
    """Three cells of 3 bits; the last holds the upper 2 bits, and sums are still those of 8-bit weights."""
    spec = ArraySpec(xbar_rows=16, xbar_cols=30, bits_per_cell=3, rows_per_read=4)
    rng = np.random.default_rng(0)
    inputs, weights = rng.integers(0, 256, 16), rng.integers(-128, 128, (16, 10))
    assert [map_layer(linear(16, outputs), spec).arrays for outputs in (10, 11)] == [1, 2]
    assert read_block(inputs, weights, spec).sums.tolist() == (inputs @ weights).tolist()


@pytest.mark.parametrize("mux", [1, 4, 8, 128, 300])
def test_m5_sharing_never_divides_to_zero(mux):
    """Eight cells a weight behind a converter of 4 columns: 4 reads in turn; cycles grow as the sharing does."""
    each = dense(linear(128, 16), cols_per_adc=mux).each
    assert each.tolist() == [mux * dense(linear(128, 16), cols_per_adc=1).each[0]]
    assert ArraySpec(cols_per_adc=mux).converters == max(1, -(-128 // mux))


def test_m8_a_layer_narrower_than_an_array():
    """Four outputs on 32 columns use one eighth of the cells."""
    mapped = map_layer(linear(8, 4), ArraySpec(xbar_rows=32, xbar_cols=32, bits_per_cell=8))
    assert (mapped.arrays, mapped.cell_use) == (1, 8 * 4 / 32**2)


def test_m9_remainder_across_copies():
    """Eight operations on six copies: two rounds, eight operations of work and not twelve."""
    work = dense(linear(8, 8, batch=8))
    one = work.each[0]
    assert work.layer_cycles(6) == 2 * one
    assert work.block_total.tolist() == [8 * one]
    run = simulate(np.full((8, 1), one), np.array([6]), dataflow="block", arrays_per_block=1)
    assert (run.cycles, run.busy) == (2 * one, 8 * one)


@pytest.mark.parametrize(("policy", "arrays"), [("block_diagonal", 3), ("one_group_per_array", 32)])
def test_m10_depthwise_policies(policy, arrays):
    """32 groups, 3 x 3, eight 1-bit cells a weight, 128 x 128; never the 6 arrays of a dense layer."""
    layer = Layer("dw", "conv", 32, 32, (3, 3), groups=32, out_map=(8, 8))
    mapped = map_layer(layer, ArraySpec(grouped_policy=policy))
    assert mapped.arrays == arrays
    assert mapped.block_rows.tolist() == ([126, 126, 36] if arrays == 3 else [9] * 32)
    assert mapped.cell_use == pytest.approx(2304 / (arrays * 128**2))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3", "mobilebert"])
def test_m11_evaluated_macs_are_the_workloads(name):
    """For every kind of array of the space: operations x rows x outputs over all blocks, by layer and in total."""
    net = load(name)
    model = ZeroSkipEvaluator(include_linear=True, dynamic_layers="write")
    space, genes = sampled(12, 7)
    for row in space.designs(genes).rows():
        mapped = model.network(net).mapped(model.spec(row))
        macs = [m.patches * int(m.block_rows.sum()) * (m.layer.out_channels // m.layer.groups) for m in mapped]
        assert macs == [m.macs for m in mapped]
        assert sum(macs) == net.macs


@pytest.mark.parametrize("rows", [32, 64, 128, 256, 512])
def test_m13_rows_over_blocks_are_all_rows(rows):
    mapped = map_layer(linear(1152, 32), ArraySpec(xbar_rows=rows))
    assert mapped.block_rows.sum() == 1152
    assert mapped.block_rows.max() <= rows


def test_m15_a_product_without_writes_is_not_offered():
    """Both operands change with every image: refused, left out knowingly, or written."""
    net = Workload("att", (linear(64, 64), Layer("qk", "matmul", 64, 64, dynamic=True)))
    space, genes = sampled(1, 1, n_pes=64)
    written = ZeroSkipEvaluator(dynamic_layers="write", include_linear=True)
    table = written.evaluate(space.designs(genes), [net], "layers").layers["att"]
    assert table.names == ("fc", "qk")
    assert (table.values["write_cycles"][0] > 0).tolist() == [False, True]
    left_out = ZeroSkipEvaluator(dynamic_layers="exclude", include_linear=True)
    assert left_out.evaluate(space.designs(genes), [net], "layers").layers["att"].names == ("fc",)


def test_m16_more_arrays_are_never_slower():
    """Random designs with the exact allocation, each against the next larger chip."""
    space, genes = sampled(40, 8, allocation="optimal")
    at = space.names.index("n_pes")
    more = genes.copy()
    more[:, at] = np.minimum(more[:, at] + 1, space.n_choices[at] - 1)
    net = Workload("w", load("alexnet").layers[:5])
    model = ZeroSkipEvaluator(fidelity="totals")
    small, large = (model.evaluate(space.designs(g), [net]).values["cycles"][:, 0] for g in (genes, more))
    ok = np.isfinite(small)
    assert ok.sum() >= 10
    assert (large[ok] <= small[ok]).all()


def test_m16_a_larger_buffer_moves_no_more():
    """Words through the global buffer do not depend on its size; the amount by which maps miss it falls."""
    net = Workload("w", load("alexnet").layers[:5])
    model = ZeroSkipEvaluator(fidelity="totals", system=True)
    space, genes = sampled(4, 9, n_pes=1024)
    amounts = []
    for mb in (1, 2, 8, 32):
        parameters = replace(space.parameters, fixed=dict(space.parameters.fixed) | {"glb_mb": mb})
        amounts.append(model.evaluate(Designs(parameters, genes), [net]).violations["glb"])
    assert (np.diff(np.stack(amounts), axis=0) < 0).all()
