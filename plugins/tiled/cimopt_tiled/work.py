"""Work of every distinct layer on a chip structure, and the sums that price it: the physical preset's first stage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from cimopt_tiled.counts import (
    ACTIVE_CELLS,
    ARRAYS,
    CELL_WRITES,
    COLS_USED,
    COPIES,
    CYCLES,
    DRAM_BITS,
    GLB_BITS,
    GLB_READS,
    GLB_WORD_BITS,
    IN_READS,
    IN_WRITES,
    MOVED_BITS,
    N_COUNTS,
    N_DATA,
    N_ENERGY,
    OUT_READS,
    OUT_WRITES,
    RELOADS,
    ROUTER,
    ROUTER_WORD_BITS,
    ROUTERS_USED,
    ROWS_USED,
)
from cimopt_tiled.layers import LayerSet
from cimopt_tiled.mapping import N_LEVELS, C, G, M, R, S
from cimopt_tiled.structure import (
    N_BASIS,
    N_DATA_SUMS,
    N_DRIVEN,
    N_SUMS,
    Kernel,
    count_layer,
    memo_of,
    new_scratch,
    slices_of,
)

# Sums: those of the published preset (weight movement of stored weights only), then writes of dynamic
# operands (cells and drivers), then programming writes of all stored weights (cells and rows).
DYNAMIC_SUMS = N_SUMS
PROGRAM_SUMS = DYNAMIC_SUMS + 2 * N_BASIS
N_PHYSICAL_SUMS = PROGRAM_SUMS + 2 * N_BASIS
N_FIGURES = 2
FIG_UTILIZATION, FIG_GLB_BITS = range(N_FIGURES)

# Columns of a layer's work, float32 ``(k, 11)``, for one repeat and one input; cycles are kept apart in float64.
# IN_TILE, OUT_TILE: accesses of one tile's buffer; NOC: words of one router; GLB: words of the global buffer
# (what the loops force through them);
# DRAM: weight bits; WRITE_ROWS: rows written one after another in an array; PORT: words one router brings to its
# arrays when they are written.
ROWS, COLS, MEAN_ARRAYS, IN_TILE, OUT_TILE, NOC, GLB, DRAM, WRITE_ROWS, PORT, LOADS = range(11)
N_WORK = 11
_BISECTIONS = 40


class WorkKernel(NamedTuple):
    """Switches: those of the counting kernel, and whether copies of RRAM weights must fit beside all layers."""

    count: Kernel
    resident: bool


@njit(cache=True)
def _move_operand(counts, weight_bits, slices):
    """A dynamic operand comes from the global buffer, not from DRAM: turn its DRAM bits into on-chip words."""
    bits = counts[DRAM_BITS] * weight_bits / slices
    routers = max(counts[ROUTERS_USED], 1.0)
    counts[GLB_READS] += np.ceil(bits / GLB_WORD_BITS)
    counts[MOVED_BITS] += bits
    counts[ROUTER] += routers * np.ceil(bits / routers / ROUTER_WORD_BITS)
    counts[DRAM_BITS] = 0.0


@njit(cache=True)
def _fill_work(counts, structure, weight_bits, from_glb, row):
    """One layer's work columns from its counts; a placer spreads it evenly over the chip's tiles and routers."""
    groups = structure[5]
    tiles = groups * structure[4]
    row[ROWS], row[COLS], row[MEAN_ARRAYS] = counts[ROWS_USED], counts[COLS_USED], counts[ARRAYS]
    row[IN_TILE] = (counts[IN_READS] + counts[IN_WRITES]) / tiles
    row[OUT_TILE] = (counts[OUT_READS] + counts[OUT_WRITES]) / tiles
    row[GLB] = counts[MOVED_BITS] / GLB_WORD_BITS
    row[NOC] = counts[MOVED_BITS] / ROUTER_WORD_BITS / groups
    row[DRAM] = 0.0 if from_glb else weight_bits
    row[WRITE_ROWS] = counts[RELOADS] * counts[ROWS_USED]
    row[PORT] = weight_bits / ROUTER_WORD_BITS / groups
    row[LOADS] = counts[RELOADS]


@njit(cache=True)
def _add_sums(counts, basis, driven, dynamic, sums):
    """Add one layer's counts to a workload's sums; ``basis`` ``(4,)`` and ``driven`` ``(2, 4)`` include its repeats."""
    for q in range(N_DATA):
        row = driven[q] if q < N_DRIVEN else basis
        for b in range(N_BASIS):
            at = q * N_BASIS + b
            if dynamic and q >= CELL_WRITES:
                at += DYNAMIC_SUMS - CELL_WRITES * N_BASIS
            sums[at] += counts[q] * row[b]
    for q in range(N_DATA, N_ENERGY):
        sums[N_DATA_SUMS + q - N_DATA] += counts[q] * basis[0]


@njit(cache=True)
def _cells_of(dims, slices):
    """Cells that hold one copy of a layer's weights."""
    return float(dims[C] * dims[M] * dims[R] * dims[S] * dims[G] * slices)


@njit(cache=True)
def _wanted_cells(own, basis, dynamic, copies, shrink):
    """Cells of a workload when every layer's copies are divided by ``shrink`` (never below one copy)."""
    stored, largest = 0.0, 0.0
    for k in range(len(own)):
        if basis[k, 0] > 0:
            cells = own[k] * max(1.0, copies[k] / shrink)
            if dynamic[k]:
                largest = max(largest, cells)
            else:
                stored += cells * basis[k, 0]
    return stored + largest


@njit(cache=True)
def _shrink(own, basis, dynamic, copies, cells):
    """Smallest common divisor of copies (>= 1) with which one workload's layers fit side by side.

    ``own`` ``(k,)``: cells of one copy of each layer.
    """
    if _wanted_cells(own, basis, dynamic, copies, 1.0) <= cells:
        return 1.0
    low, high = 1.0, max(copies.max(), 1.0)
    for _ in range(_BISECTIONS):
        middle = np.sqrt(low * high)
        if _wanted_cells(own, basis, dynamic, copies, middle) <= cells:
            high = middle
        else:
            low = middle
    return high


@njit(cache=True)
def _work_of(
    structures, dims, steps, widths, dynamic, basis, driven, kernel, memo, scratch, cycles, work, slowed, sums, figures
):
    counts, copies, active = np.empty(N_COUNTS), np.empty(len(dims)), np.empty(len(dims))
    slices, own = np.empty(len(dims), np.int64), np.empty(len(dims))
    for i in range(len(structures)):
        bits = structures[i, 0]
        cells = 1.0
        for level in range(N_LEVELS):
            cells *= structures[i, 1 + level]
        for k in range(len(dims)):
            writes = kernel.count.is_sram or dynamic[k]
            slices[k] = slices_of(widths[k], bits)
            own[k] = _cells_of(dims[k], slices[k])
            count_layer(structures[i], dims[k], steps[k], widths[k], writes, kernel.count, memo, scratch, counts)
            if dynamic[k]:
                _move_operand(counts, widths[k, 0], slices[k])
            cycles[i, k] = counts[CYCLES]
            copies[k], active[k] = counts[COPIES], counts[ACTIVE_CELLS] / cells
            weight_bits = _cells_of(dims[k], widths[k, 0]) if writes else 0.0
            _fill_work(counts, structures[i], weight_bits, dynamic[k], work[i, k])
            for w in range(basis.shape[2]):
                if basis[k, 0, w, 0] > 0:
                    _add_sums(counts, basis[k, bits - 1, w], driven[k, bits - 1, w], dynamic[k], sums[i, w])
                    figures[i, w, FIG_GLB_BITS] = max(figures[i, w, FIG_GLB_BITS], counts[GLB_BITS])
        for w in range(basis.shape[2]):
            shrink = 1.0
            if kernel.resident:
                shrink = _shrink(own, basis[:, bits - 1, w], dynamic, copies, cells)
            mine, columns = basis[:, bits - 1, w], structures[i, 2]
            stored = not kernel.count.is_sram
            _finish(
                dims, dynamic, mine, copies, active, slices, own, columns, shrink, stored,
                slowed[i, w], sums[i, w], figures[i, w],
            )  # fmt: skip


@njit(cache=True)
def _finish(dims, dynamic, basis, copies, active, slices, own, columns, shrink, stored, slowed, sums, figures):
    """What depends on the copies kept: slow-down, utilisation and programming of one workload."""
    for k in range(len(dims)):
        if basis[k, 0] == 0:
            continue
        kept = max(1.0, copies[k] / shrink)
        slow = copies[k] / kept
        slowed[k] = slow
        figures[FIG_UTILIZATION] = max(figures[FIG_UTILIZATION], active[k] / slow)
        if stored and not dynamic[k]:
            written = own[k] * kept
            rows = written / min(dims[k, M] * slices[k], columns)
            for b in range(N_BASIS):
                sums[PROGRAM_SUMS + b] += written * basis[k, b]
                sums[PROGRAM_SUMS + N_BASIS + b] += rows * basis[k, b]


def layer_work(
    structures: np.ndarray, layers: LayerSet, kernel: WorkKernel
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Work of every distinct layer on every structure.

    Args:
        structures: int ``(m, 6)``: bits per cell, rows, columns, macros per tile, tiles per router, groups.
        layers: the workloads, dynamic layers marked.
        kernel: the switches.

    Returns:
        cycles float64 ``(m, k)`` and work float32 ``(m, k, 11)`` of one repeat, as mapped on the whole chip;
        slowed float32 ``(m, w, k)``: by what factor fewer copies slow a layer down in a workload;
        sums ``(m, w, 44)``; figures ``(m, w, 2)`` (utilisation, needed global-buffer bits).
    """
    structures = np.ascontiguousarray(structures, np.int64)
    m, n_k, n_w = len(structures), len(layers.dims), layers.basis.shape[2]
    cycles, work = np.empty((m, n_k)), np.empty((m, n_k, N_WORK), np.float32)
    slowed = np.ones((m, n_w, n_k), np.float32)
    sums, figures = np.zeros((m, n_w, N_PHYSICAL_SUMS)), np.zeros((m, n_w, N_FIGURES))
    _work_of(
        structures, layers.dims, layers.steps, layers.widths, layers.dynamic, layers.basis, layers.driven, kernel,
        memo_of(kernel.count), new_scratch(), cycles, work, slowed, sums, figures,
    )  # fmt: skip
    return cycles, work, slowed, sums, figures


@njit(cache=True)
def _counts_of(structures, dims, steps, widths, dynamic, kernel, memo, scratch, out):
    for i in range(len(structures)):
        for k in range(len(dims)):
            writes = kernel.is_sram or dynamic[k]
            count_layer(structures[i], dims[k], steps[k], widths[k], writes, kernel, memo, scratch, out[i, k])
            if dynamic[k]:
                _move_operand(out[i, k], widths[k, 0], slices_of(widths[k], structures[i, 0]))


def work_counts(structures: np.ndarray, layers: LayerSet, kernel: Kernel) -> np.ndarray:
    """Counts ``(m, k, 24)`` behind `layer_work`, for tables per layer."""
    structures = np.ascontiguousarray(structures, np.int64)
    out = np.empty((len(structures), len(layers.dims), N_COUNTS))
    _counts_of(
        structures,
        layers.dims,
        layers.steps,
        layers.widths,
        layers.dynamic,
        kernel,
        memo_of(kernel),
        new_scratch(),
        out,
    )
    return out
