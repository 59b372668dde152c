"""Counts of many layers on many chip structures, and their sums per workload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from cimopt_tiled.counts import (
    ACTIVE_CELLS,
    CYCLES,
    GLB_BITS,
    N_COUNTS,
    N_DATA,
    N_ENERGY,
    WEIGHT_BITS,
    count_actions,
)
from cimopt_tiled.mapping import N_DIMS, N_LEVELS, Y, map_layer
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.search import new_memo

# Layout of a row of sums: four basis sums (1, a, w, a*w) for each data-dependent count, then one sum
# for each other energy count, then the four figures below.
N_BASIS = 4
N_SUMS = N_DATA * N_BASIS + (N_ENERGY - N_DATA)
N_FIGURES = 3
FIG_CYCLES, FIG_UTILIZATION, FIG_GLB_BITS = range(N_FIGURES)


@dataclass(frozen=True)
class Kernel:
    """Switches of the counting kernel, from the memory technology and the quirks."""

    is_sram: bool
    credit_exact: bool
    pay_first_fill: bool

    @classmethod
    def of(cls, memory: str, quirks: Quirks) -> Kernel:
        """Return the switches for ``memory`` ("rram" or "sram")."""
        is_sram = memory == "sram"
        return cls(
            is_sram=is_sram,
            credit_exact=not quirks.exact_split_under_credited,
            pay_first_fill=not (is_sram and quirks.first_fill_free_in_sram),
        )


@njit(cache=True)
def _capacities(structure, capacity):
    """Places per level from (bits, rows, cols, macros, tiles, groups)."""
    for level in range(N_LEVELS):
        capacity[level] = structure[1 + level]


@njit(cache=True)
def _count_layers(structures, dims, steps, is_sram, credit_exact, pay_first, memo_keys, memo_utils, memo_factors, out):
    factor = np.empty((N_LEVELS, N_DIMS), np.int64)
    left = np.empty((N_LEVELS + 1, N_DIMS), np.int64)
    capacity = np.empty(N_LEVELS, np.int64)
    layer = np.empty(N_DIMS, np.int64)
    for i in range(structures.shape[0]):
        _capacities(structures[i], capacity)
        for k in range(dims.shape[0]):
            layer[:] = dims[k]
            layer[Y] = (WEIGHT_BITS + structures[i, 0] - 1) // structures[i, 0]
            map_layer(layer, capacity, is_sram, credit_exact, factor, left, memo_keys, memo_utils, memo_factors)
            count_actions(layer, steps[k], capacity, factor, left, is_sram, pay_first, out[i, k])


@njit(cache=True)
def _add_layer(counts, basis, sums, figures, cells):
    """Add one distinct layer's counts to each workload that has it; ``basis`` is ``(w, 4)``."""
    for w in range(basis.shape[0]):
        repeats = basis[w, 0]
        if repeats == 0.0:
            continue
        for q in range(N_DATA):
            for b in range(N_BASIS):
                sums[w, q * N_BASIS + b] += counts[q] * basis[w, b]
        for q in range(N_DATA, N_ENERGY):
            sums[w, N_DATA * N_BASIS + q - N_DATA] += counts[q] * repeats
        figures[w, FIG_CYCLES] += counts[CYCLES] * repeats
        figures[w, FIG_UTILIZATION] = max(figures[w, FIG_UTILIZATION], counts[ACTIVE_CELLS] / cells)
        figures[w, FIG_GLB_BITS] = max(figures[w, FIG_GLB_BITS], counts[GLB_BITS])


@njit(cache=True)
def _sum_layers(
    structures, dims, steps, basis, is_sram, credit_exact, pay_first, memo_keys, memo_utils, memo_factors, sums, figures
):
    counts = np.empty((1, 1, N_COUNTS))
    for i in range(structures.shape[0]):
        bits = structures[i, 0]
        cells = float(structures[i, 1:].prod())
        for k in range(dims.shape[0]):
            _count_layers(
                structures[i : i + 1],
                dims[k : k + 1],
                steps[k : k + 1],
                is_sram,
                credit_exact,
                pay_first,
                memo_keys,
                memo_utils,
                memo_factors,
                counts,
            )
            _add_layer(counts[0, 0], basis[k, bits - 1], sums[i], figures[i], cells)


def count_layers(structures: np.ndarray, dims: np.ndarray, steps: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Counts of every layer on every structure.

    Args:
        structures: int ``(m, 6)``: bits per cell, rows, columns, macros per tile, tiles per router, groups.
        dims: int ``(k, 9)`` in the order of :mod:`cimopt_tiled.mapping`; the slice column is overwritten.
        steps: int ``(k, 4)``: stride h, w and dilation h, w of input footprints.
        kernel: the switches.

    Returns:
        float64 ``(m, k, 16)``, columns :data:`cimopt_tiled.counts.COUNT_NAMES`.
    """
    structures = np.ascontiguousarray(structures, np.int64)
    out = np.empty((len(structures), len(dims), N_COUNTS))
    _count_layers(
        structures, dims, steps, kernel.is_sram, kernel.credit_exact, kernel.pay_first_fill, *new_memo(), out
    )
    return out


def sum_layers(
    structures: np.ndarray, dims: np.ndarray, steps: np.ndarray, basis: np.ndarray, kernel: Kernel
) -> tuple[np.ndarray, np.ndarray]:
    """Sums per structure and workload, from which the energy of a design is one dot product.

    Args:
        structures, dims, steps, kernel: as for :func:`count_layers`.
        basis: float64 ``(k, 8, w, 4)``: for each distinct layer, bits per cell (1..8) and workload the
            sums over its occurrences of repeats x (1, a, w, a*w).

    Returns:
        sums ``(m, w, 28)`` and figures ``(m, w, 3)`` (cycles, utilisation, needed global-buffer bits).
    """
    structures = np.ascontiguousarray(structures, np.int64)
    sums = np.zeros((len(structures), basis.shape[2], N_SUMS))
    figures = np.zeros((len(structures), basis.shape[2], N_FIGURES))
    _sum_layers(
        structures,
        dims,
        steps,
        basis,
        kernel.is_sram,
        kernel.credit_exact,
        kernel.pay_first_fill,
        *new_memo(),
        sums,
        figures,
    )
    return sums, figures
