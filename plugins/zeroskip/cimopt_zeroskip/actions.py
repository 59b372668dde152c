"""What a layer does per image, counted: the actions that cost energy. One column per action of `ACTIONS`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cimopt_zeroskip.chip import ChipRun
from cimopt_zeroskip.system import mean_hops, partial_sum_bits
from cimopt_zeroskip.work import LayerWork
from cimopt_zeroskip.writing import writes_of

# Cell pulses and writes are split into a part per pulse and a part that grows with the mean cell value (0..1).
ACTIONS = (
    "cell_pulses",
    "cell_pulses_by_value",
    "row_pulses",
    "conversions",
    "input_words",
    "output_words",
    "router_transfers",
    "glb_reads",
    "glb_writes",
    "array_cycles",
    "pe_cycles",
    "chip_cycles",
    "cell_writes",
    "cell_writes_by_value",
    "row_writes",
)
PE_WORD_BITS = 128
ROUTER_WORD_BITS = 128
GLB_WORD_BITS = 2048
# Mean cell value of layers without statistics, for 1..8 bits per cell: plain means over the layers of the nine
# networks published with arXiv 2603.03880.
DEFAULT_CELL_VALUE = (0.503456, 0.502777, 0.400450, 0.501401, 0.299322, 0.254904, 0.245022, 0.486162)


def layer_actions(works: Sequence[LayerWork], run: ChipRun, n_pes: int, cycles: float) -> np.ndarray:
    """Actions of every layer for one image, float64 ``(L, len(ACTIONS))``.

    A one pulses its row once per column group that is read in turn, and every cell of the row once per plane;
    a cycle is one conversion of every converter of the arrays at work. Inputs go from the global buffer through
    the mesh into a PE's input buffer and are read there once; partial sums go the other way. Idle actions
    (leakage) last ``cycles`` per image and are shared among layers by their arrays. An operand that is written
    takes the way of the inputs, once per copy.
    """
    share = run.layer_arrays / run.layer_arrays.sum()
    writes = [writes_of(work, copies) for work, copies in zip(works, run.copies, strict=True)]
    rows = [_one_layer(work, w.bits, n_pes) for work, w in zip(works, writes, strict=True)]
    idle = np.array([[run.n_arrays * cycles, n_pes * cycles, cycles]]) * share[:, None]
    cells = [[w.cells, w.cells * _cell_value(work), w.rows] for work, w in zip(works, writes, strict=True)]
    return np.concatenate([np.array(rows), idle, np.array(cells)], axis=1)


def _one_layer(work: LayerWork, written_bits: float, n_pes: int) -> list[float]:
    m, spec, layer = work.mapped, work.mapped.spec, work.mapped.layer
    ones, side = float(work.ones.sum()), m.arrays_per_block
    pulses = ones * side * spec.xbar_cols
    used = ones * layer.out_channels // layer.groups * spec.cells_per_weight
    input_bits = float(m.patches * m.rows * spec.input_bits) + written_bits
    outputs = min(side * spec.xbar_cols // spec.cells_per_weight, layer.out_channels)
    sum_bits = float(m.patches * m.blocks * outputs * partial_sum_bits(spec))
    hops = max(1.0, mean_hops(n_pes))
    return [
        pulses,
        used * _cell_value(work),
        ones * side * spec.cols_per_adc,
        float(work.block_total.sum()) * side * spec.converters,
        input_bits / PE_WORD_BITS,
        sum_bits / PE_WORD_BITS,
        (input_bits + sum_bits) / ROUTER_WORD_BITS * hops,
        input_bits / GLB_WORD_BITS,
        m.patches * layer.out_channels * spec.input_bits / GLB_WORD_BITS,
    ]


def _cell_value(work: LayerWork) -> float:
    """Mean cell value, of the largest a cell can hold; a weight narrower than its cell leaves the upper levels unused."""
    spec, known = work.mapped.spec, work.mapped.layer.mean_weight_slice
    mean = (known or DEFAULT_CELL_VALUE)[min(spec.bits_per_cell, len(DEFAULT_CELL_VALUE)) - 1]
    if spec.weight_bits >= spec.bits_per_cell:
        return mean
    return mean * (2**spec.weight_bits - 1) / (2**spec.bits_per_cell - 1)
