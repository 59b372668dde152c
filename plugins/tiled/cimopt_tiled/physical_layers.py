"""Sums and times of single layers, for the tables of the physical preset."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cimopt_tiled.counts import ACTIVE_CELLS, CELL_WRITES, COPIES, N_COUNTS, N_DATA, N_ENERGY
from cimopt_tiled.layers import LayerSet, Occurrences
from cimopt_tiled.mapping import C, G, M, R, S
from cimopt_tiled.pool import Pool
from cimopt_tiled.structure import N_BASIS, N_DATA_SUMS, N_DRIVEN, Kernel, packed_groups
from cimopt_tiled.timing import N_RESULTS, N_TERMS, R_ADC, R_CONVERSIONS, R_SPILL, Physics, layer_times
from cimopt_tiled.work import DYNAMIC_SUMS, N_PHYSICAL_SUMS, N_SUMS, PROGRAM_SUMS, work_counts


def layer_sums(
    layers: LayerSet,
    listed: Occurrences,
    structures: np.ndarray,
    fits: np.ndarray,
    memory: np.ndarray,
    kernels: Mapping[str, Kernel],
    slowed: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Share of active cells ``(n, L)`` and sums ``(n, L, 44)`` of one workload's layers, repeats included.

    Args:
        layers, listed: the workloads as arrays, and this one's layers.
        structures: int ``(n, 6)``; fits: bool ``(n,)``; memory: str ``(n,)``.
        kernels: counting kernel of each memory that occurs.
        slowed: ``(n, k)`` of this workload.
    """
    counts = np.full((len(structures), len(layers.dims), N_COUNTS), np.nan)
    for name, kernel in kernels.items():
        here = np.flatnonzero((memory == name) & fits)
        if here.size:
            counts[here] = work_counts(structures[here], layers, kernel)
    mine, dynamic = counts[:, listed.shape], layers.dynamic[listed.shape]
    basis = listed.basis[:, structures[:, 0] - 1].swapaxes(0, 1) * listed.repeats[:, None]
    sums = np.zeros((*mine.shape[:2], N_PHYSICAL_SUMS))
    by_count = np.repeat(basis[:, :, None, :], N_DATA, axis=2)
    by_count[:, :, :N_DRIVEN] *= layers.input_factors[listed.shape]
    data = (mine[:, :, :N_DATA, None] * by_count).reshape(*mine.shape[:2], N_DATA_SUMS)
    writes = slice(CELL_WRITES * N_BASIS, N_DATA_SUMS)
    sums[:, :, :N_DATA_SUMS] = data
    sums[:, :, writes][:, dynamic] = 0
    sums[:, :, N_DATA_SUMS:N_SUMS] = mine[:, :, N_DATA:N_ENERGY] * listed.repeats[:, None]
    sums[:, dynamic, DYNAMIC_SUMS:PROGRAM_SUMS] = data[:, dynamic, writes]
    kept = mine[:, :, COPIES] / slowed[:, listed.shape]
    cells, rows = _programmed(layers.dims[listed.shape], layers.widths[listed.shape, 0], structures, kept)
    stored = (memory == "rram")[:, None] & ~dynamic
    for at, written in ((PROGRAM_SUMS, cells), (PROGRAM_SUMS + N_BASIS, rows)):
        sums[:, :, at : at + N_BASIS] = np.where(stored, written, 0.0)[:, :, None] * basis
    return mine[:, :, ACTIVE_CELLS] / structures[:, 1:].prod(axis=1)[:, None], sums


def together(
    layers: LayerSet, structures: np.ndarray, fits: np.ndarray, memory: np.ndarray, kernels: Mapping[str, Kernel]
) -> np.ndarray:
    """Groups of each shape that share an array, ``(n, k)``; NaN where the weights do not fit."""
    out = np.full((len(structures), len(layers.dims)), np.nan)
    for name, kernel in kernels.items():
        here = np.flatnonzero((memory == name) & fits)
        out[here] = packed_groups(structures[here], layers.dims, layers.widths, kernel)
    return out


def _programmed(
    dims: np.ndarray, weight_bits: np.ndarray, structures: np.ndarray, kept: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cells and rows written to program every copy of L layers once, each ``(n, L)``."""
    slices = -(-weight_bits // structures[:, :1])
    cells = dims[:, [C, M, R, S, G]].prod(axis=1) * slices * kept
    return cells, cells / np.minimum(dims[:, M] * slices, structures[:, 2:3])


def layer_results(
    layers: LayerSet,
    listed: Occurrences,
    pool: Pool,
    slots: np.ndarray,
    slowed: np.ndarray,
    points: np.ndarray,
    physics: Physics,
    adc_price: np.ndarray,
    basis: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Latency terms ``(n, L, 11)`` and results ``(n, L, 8)`` of one workload's layers, repeats included."""
    n, n_layers = len(points), len(listed.shape)
    terms, results = np.empty((n, n_layers, N_TERMS)), np.zeros((n, n_layers, N_RESULTS))
    converted, spill = np.empty((n, n_layers)), np.empty((n, n_layers))
    layer_times(
        listed.shape, slowed, pool.take("cycles", slots), pool.take("work", slots), layers.input_steps,
        layers.activation_bits, layers.dynamic, points, physics, terms, converted, spill,
    )  # fmt: skip
    results[:, :, R_CONVERSIONS] = converted * listed.repeats
    results[:, :, R_ADC] = results[:, :, R_CONVERSIONS] * (basis * adc_price[:, None, :]).sum(axis=2)
    results[:, :, R_SPILL] = spill * listed.repeats
    return terms * listed.repeats[:, None], results
