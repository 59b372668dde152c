"""Counts of many layers on many chip structures, and their sums per workload."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from cimopt_tiled.counts import (
    ACTIVE_CELLS,
    CELL_READS,
    CELL_WRITES,
    CYCLES,
    DRAM_BITS,
    GLB_BITS,
    N_COUNTS,
    N_DATA,
    N_ENERGY,
    count_actions,
    over_all,
)
from cimopt_tiled.mapping import N_DIMS, N_LEVELS, C, G, M, R, S, Y, map_layer
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.search import Memo, new_memo

# Layout of a row of sums: four basis sums (1, a, w, a*w) for each data-dependent count, then one sum
# for each other energy count; figures are kept apart.
N_BASIS = 4
N_DATA_SUMS = N_DATA * N_BASIS
# The first counts (reads of cells, rows) are driven by inputs: their basis knows how wide those are.
N_DRIVEN = 2
N_SUMS = N_DATA_SUMS + (N_ENERGY - N_DATA)
N_FIGURES = 3
FIG_CYCLES, FIG_UTILIZATION, FIG_GLB_BITS = range(N_FIGURES)


class Kernel(NamedTuple):
    """Switches of the counting kernel, from the memory technology and the quirks.

    ``pack_groups``: several groups of a grouped layer share an array, block-diagonally.
    """

    is_sram: bool
    credit_exact: bool
    pay_first_fill: bool
    exact_in_time: bool
    pack_groups: bool = False

    @classmethod
    def of(cls, memory: str, quirks: Quirks, pack_groups: bool = False) -> Kernel:
        """Return the switches for ``memory`` ("rram" or "sram")."""
        is_sram = memory == "sram"
        return cls(
            is_sram=is_sram,
            credit_exact=not quirks.exact_split_under_credited,
            pay_first_fill=not (is_sram and quirks.first_fill_free_in_sram),
            exact_in_time=quirks.weights_exact_in_time,
            pack_groups=pack_groups,
        )


_MEMOS: dict[bool, Memo] = {}


def memo_of(kernel: Kernel) -> Memo:
    """The process's memo for these switches: answers depend on nothing else, and its size is fixed."""
    if kernel.credit_exact not in _MEMOS:
        _MEMOS[kernel.credit_exact] = new_memo()
    return _MEMOS[kernel.credit_exact]


class Scratch(NamedTuple):
    """Arrays reused for every layer: dims ``(9,)``, capacity ``(5,)``, factor ``(5, 9)``, left ``(6, 9)``."""

    dims: np.ndarray
    capacity: np.ndarray
    factor: np.ndarray
    left: np.ndarray


def new_scratch() -> Scratch:
    sizes = (N_DIMS, N_LEVELS, (N_LEVELS, N_DIMS), (N_LEVELS + 1, N_DIMS))
    return Scratch(*(np.empty(size, np.int64) for size in sizes))


@njit(cache=True)
def groups_per_array(dims, rows, cols):
    """Groups that fit into one array block-diagonally, evened out so that all arrays hold about as many."""
    taps, outputs = dims[C] * dims[R] * dims[S], dims[M] * dims[Y]
    most = min(rows // taps, cols // outputs)
    if dims[G] == 1 or most <= 1:
        return np.int64(1)
    arrays = (dims[G] + most - 1) // most
    return (dims[G] + arrays - 1) // arrays


@njit(cache=True)
def slices_of(width, bits_per_cell):
    """Cells side by side that hold one weight; ``width`` is (weight bits, activation bits)."""
    return (width[0] + bits_per_cell - 1) // bits_per_cell


@njit(cache=True)
def best_slices(slices, capacity, credit_exact, memo, scratch):
    """Columns to keep for a weight in SRAM: up to the next power of two, as many as take the fewest cycles.

    The mapping rule leaves places unused, and fetches the largest part everywhere, where slices divide no level;
    a column left empty then costs less. Nothing changes for powers of two.
    """
    top = np.int64(1)
    while top < slices:
        top *= 2
    best, fewest = slices, np.int64(-1)
    if top == slices:
        return best
    for wide in range(slices, top + 1):
        scratch.dims[Y] = wide
        map_layer(scratch.dims, capacity, True, credit_exact, memo, scratch.factor, scratch.left)
        cycles = over_all(scratch.left[N_LEVELS])
        if fewest < 0 or cycles <= fewest:
            best, fewest = wide, cycles
    return best


@njit(cache=True)
def count_layer(structure, dims, step, width, writes, kernel, memo, scratch, out):
    """Counts ``(24,)`` of one layer on one structure (bits, rows, cols, macros, tiles, groups).

    ``width`` ``(2,)``: bits of a weight and of an activation.
    """
    for d in range(N_DIMS):
        scratch.dims[d] = dims[d]
    slices = slices_of(width, structure[0])
    scratch.dims[Y] = slices
    for level in range(N_LEVELS):
        scratch.capacity[level] = structure[1 + level]
    packed = np.int64(1)
    if kernel.pack_groups:
        packed = groups_per_array(scratch.dims, structure[1], structure[2])
        scratch.dims[C] *= packed
        scratch.dims[M] *= packed
        scratch.dims[G] = (dims[G] + packed - 1) // packed
    place, factor, left = scratch.capacity, scratch.factor, scratch.left
    if kernel.is_sram:
        scratch.dims[Y] = best_slices(slices, place, kernel.credit_exact, memo, scratch)
    map_layer(scratch.dims, place, kernel.is_sram, kernel.credit_exact, memo, factor, left)
    count_actions(
        scratch.dims,
        step,
        width[1],
        place,
        factor,
        left,
        kernel.is_sram,
        writes,
        kernel.pay_first_fill,
        kernel.exact_in_time,
        out,
    )
    if packed > 1:
        # Off the diagonal there is no weight: those cells are neither read, written nor in use.
        filled = dims[G] / (packed * packed * scratch.dims[G])
        out[CELL_READS] *= filled
        out[ACTIVE_CELLS] *= filled
        out[CELL_WRITES] *= filled
        out[DRAM_BITS] *= filled
    if scratch.dims[Y] > slices:  # empty columns are converted, but neither read, written nor in use
        for count in (CELL_READS, ACTIVE_CELLS, CELL_WRITES, DRAM_BITS):
            out[count] = out[count] / scratch.dims[Y] * slices


@njit(cache=True)
def _packed(structures, dims, widths, out):
    one = dims[0].copy()
    for i in range(structures.shape[0]):
        for k in range(dims.shape[0]):
            one[:] = dims[k]
            one[Y] = slices_of(widths[k], structures[i, 0])
            out[i, k] = groups_per_array(one, structures[i, 1], structures[i, 2])


def packed_groups(structures: np.ndarray, dims: np.ndarray, widths: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Groups of each layer that share an array, float ``(m, k)``; 1 where none do."""
    out = np.ones((len(structures), len(dims)))
    if kernel.pack_groups:
        _packed(np.ascontiguousarray(structures, np.int64), dims, widths, out)
    return out


@njit(cache=True)
def _count_layers(structures, dims, steps, widths, kernel, memo, scratch, out):
    for i in range(structures.shape[0]):
        for k in range(dims.shape[0]):
            count_layer(structures[i], dims[k], steps[k], widths[k], kernel.is_sram, kernel, memo, scratch, out[i, k])


@njit(cache=True)
def _add_layer(counts, basis, driven, sums, figures, cells):
    """Add one distinct layer's counts to each workload that has it; ``basis`` ``(w, 4)``, ``driven`` ``(w, 2, 4)``."""
    for w in range(basis.shape[0]):
        repeats = basis[w, 0]
        if repeats == 0.0:
            continue
        for q in range(N_DATA):
            row = driven[w, q] if q < N_DRIVEN else basis[w]
            for b in range(N_BASIS):
                sums[w, q * N_BASIS + b] += counts[q] * row[b]
        for q in range(N_DATA, N_ENERGY):
            sums[w, N_DATA_SUMS + q - N_DATA] += counts[q] * repeats
        figures[w, FIG_CYCLES] += counts[CYCLES] * repeats
        figures[w, FIG_UTILIZATION] = max(figures[w, FIG_UTILIZATION], counts[ACTIVE_CELLS] / cells)
        figures[w, FIG_GLB_BITS] = max(figures[w, FIG_GLB_BITS], counts[GLB_BITS])


@njit(cache=True)
def _sum_layers(structures, dims, steps, widths, basis, driven, kernel, memo, scratch, sums, figures):
    counts = np.empty(N_COUNTS)
    for i in range(structures.shape[0]):
        bits = structures[i, 0]
        cells = 1.0
        for level in range(N_LEVELS):
            cells *= structures[i, 1 + level]
        for k in range(dims.shape[0]):
            count_layer(structures[i], dims[k], steps[k], widths[k], kernel.is_sram, kernel, memo, scratch, counts)
            _add_layer(counts, basis[k, bits - 1], driven[k, bits - 1], sums[i], figures[i], cells)


def count_layers(
    structures: np.ndarray, dims: np.ndarray, steps: np.ndarray, widths: np.ndarray, kernel: Kernel
) -> np.ndarray:
    """Counts of every layer on every structure.

    Args:
        structures: int ``(m, 6)``: bits per cell, rows, columns, macros per tile, tiles per router, groups.
        dims: int ``(k, 9)`` in the order of :mod:`cimopt_tiled.mapping`; the slice column is overwritten.
        steps: int ``(k, 4)``: stride h, w and dilation h, w of input footprints.
        widths: int ``(k, 2)``: bits of a weight and of an activation.
        kernel: the switches.

    Returns:
        float64 ``(m, k, 24)``, columns :data:`cimopt_tiled.counts.COUNT_NAMES`.
    """
    structures = np.ascontiguousarray(structures, np.int64)
    out = np.empty((len(structures), len(dims), N_COUNTS))
    _count_layers(structures, dims, steps, widths, kernel, memo_of(kernel), new_scratch(), out)
    return out


def sum_layers(
    structures: np.ndarray,
    dims: np.ndarray,
    steps: np.ndarray,
    widths: np.ndarray,
    basis: np.ndarray,
    driven: np.ndarray,
    kernel: Kernel,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums per structure and workload, from which the energy of a design is one dot product.

    Args:
        structures, dims, steps, widths, kernel: as for :func:`count_layers`.
        basis: float64 ``(k, 8, w, 4)``: for each distinct layer, bits per cell (1..8) and workload the
            sums over its occurrences of repeats x (1, a, w, a*w).
        driven: float64 ``(k, 8, w, 2, 4)``: the same for reads of cells and for rows, whose energy depends on how
            inputs of the layer's width are fed.

    Returns:
        sums ``(m, w, 28)`` and figures ``(m, w, 3)`` (cycles, utilisation, needed global-buffer bits).
    """
    structures = np.ascontiguousarray(structures, np.int64)
    sums = np.zeros((len(structures), basis.shape[2], N_SUMS))
    figures = np.zeros((len(structures), basis.shape[2], N_FIGURES))
    _sum_layers(structures, dims, steps, widths, basis, driven, kernel, memo_of(kernel), new_scratch(), sums, figures)
    return sums, figures
