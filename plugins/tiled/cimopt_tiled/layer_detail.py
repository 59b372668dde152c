"""Per-layer energy, cycles and utilisation: the same counts, not yet summed."""

from __future__ import annotations

import numpy as np

from cimopt.types import LayerTable
from cimopt_tiled.counts import ACTIVE_CELLS, CYCLES, GLB_BITS, N_COUNTS, N_DATA, N_ENERGY
from cimopt_tiled.layers import LayerSet, Occurrences
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import N_BASIS, N_DRIVEN, Kernel, count_layers
from cimopt_tiled.totals import energy_parts


def layer_tables(
    layers: LayerSet,
    workloads: tuple[str, ...],
    structures: np.ndarray,
    fits: np.ndarray,
    memory: np.ndarray,
    prices: np.ndarray,
    t_cycle_s: np.ndarray,
    quirks: Quirks,
) -> dict[str, LayerTable]:
    """Tables per workload for n designs; rows whose weights do not fit are NaN.

    Each entry counts all repeats of its layer, so ``energy_j``, ``energy_j.<component>``, ``latency_s``
    and ``cycles`` add up to the workload's; ``utilization`` and ``glb_bits`` are one repeat's.

    Args:
        layers: the workloads as arrays, named by ``workloads``.
        structures: int ``(n, 6)``; fits: bool ``(n,)``; memory: str ``(n,)``.
        prices: ``(n, 28)`` of `cimopt_tiled.prices`; t_cycle_s: ``(n,)``.
        quirks: which rules hold.
    """
    counts = np.empty((len(structures), len(layers.dims), N_COUNTS))
    for name in np.unique(memory):
        here = np.flatnonzero(memory == name)
        kernel = Kernel.of(str(name), quirks)
        counts[here] = count_layers(structures[here], layers.dims, layers.steps, layers.widths, kernel)
    counts[~fits] = np.nan
    cells = structures[:, 1:].prod(axis=1)
    found = {}
    for name, listed in zip(workloads, layers.workloads, strict=True):
        mine = counts[:, listed.shape]
        parts = energy_parts(_sums(mine, listed, layers.input_factors[listed.shape], structures[:, 0]), prices)
        cycles = mine[..., CYCLES] * listed.repeats
        values = {
            "energy_j": sum(parts.values()),
            "latency_s": cycles * t_cycle_s[:, None],
            "cycles": cycles,
            "utilization": mine[..., ACTIVE_CELLS] / cells[:, None],
            "groups_per_array": np.where(fits[:, None], 1.0, np.nan) * np.ones(len(listed.shape)),
            "glb_bits": mine[..., GLB_BITS],
        }
        found[name] = LayerTable(listed.names, values | {f"energy_j.{k}": v for k, v in parts.items()})
    return found


def _sums(counts: np.ndarray, listed: Occurrences, factors: np.ndarray, bits_per_cell: np.ndarray) -> np.ndarray:
    """Counts of L layers as sums in the order of the prices, ``(n, L, 28)``, repeats included.

    ``factors`` ``(L, 2, 4)``: what the width of the inputs makes of reads and rows.
    """
    n, n_layers = counts.shape[:2]
    basis = listed.basis[:, bits_per_cell - 1].swapaxes(0, 1)
    by_count = np.repeat(basis[:, :, None, :], N_DATA, axis=2)
    by_count[:, :, :N_DRIVEN] *= factors
    data = counts[:, :, :N_DATA, None] * by_count
    sums = np.concatenate([data.reshape(n, n_layers, N_DATA * N_BASIS), counts[:, :, N_DATA:N_ENERGY]], axis=2)
    return sums * listed.repeats[:, None]
