"""Totals and breakdowns of designs from the rows of the four stages."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numba import njit

from cimopt_tiled.prices import ARRAY_AREAS, BUFFER_AREAS, CHIP_AREAS
from cimopt_tiled.structure import FIG_CYCLES, FIG_UTILIZATION, N_DATA_SUMS

S_PER_NS = 1e-9
OPS_PER_MAC = 2
TERA = 1e12

# Which columns of the sums (and of the joined prices) make up each component's energy.
_PLAIN = N_DATA_SUMS
ENERGY_COLUMNS: Mapping[str, tuple[int, ...]] = {
    "cells": (*range(0, 4), *range(12, 16)),
    "row_drivers": tuple(range(4, 8)),
    "adc": tuple(range(8, 12)),
    "weight_drivers": tuple(range(16, 20)),
    "input_buffers": (_PLAIN, _PLAIN + 1),
    "output_buffers": (_PLAIN + 2, _PLAIN + 3),
    "router": (_PLAIN + 4,),
    "glb": (_PLAIN + 5, _PLAIN + 6),
    "dram": (_PLAIN + 7,),
}
AREA_COMPONENTS = (*ARRAY_AREAS, *BUFFER_AREAS, *CHIP_AREAS)


@njit(cache=True)
def totals(
    at, sums, figures, units, array_price, array_area, buffer_price, buffer_area, chip_price, chip_area, t_cycle_s,
    macs,
):  # fmt: skip
    """Totals of n designs on w workloads; NaN in the sums (weights that do not fit) stays NaN.

    Args:
        at: int ``(4, n)``: rows in the structure, array, buffer and chip tables.
        sums, figures: ``(k, w, 28)`` and ``(k, w, 3)`` of `cimopt_tiled.structure.sum_layers`.
        units: ``(k, 3)``: macros, tiles and routers on the chip; NaN where the weights do not fit.
        array_price, array_area, buffer_price, ...: as from `cimopt_tiled.prices`.
        t_cycle_s: ``(n,)``.
        macs: ``(w,)``, multiply-accumulates of one inference.

    Returns:
        energy_j and latency_s ``(n, w)``, area_mm2 ``(n,)``, then utilization, throughput_ips, cycles, tops
        (operations per s while it runs), tops_per_w, tops_per_mm2 and edp (J.s), each ``(n, w)``.
    """
    n, n_w = at.shape[1], sums.shape[1]
    energy, latency, utilization = np.empty((n, n_w)), np.empty((n, n_w)), np.empty((n, n_w))
    throughput, cycles, area = np.empty((n, n_w)), np.empty((n, n_w)), np.empty(n)
    tops, per_w, per_mm2, edp = np.empty((n, n_w)), np.empty((n, n_w)), np.empty((n, n_w)), np.empty((n, n_w))
    n_array, n_buffer, n_chip = array_price.shape[1], buffer_price.shape[1], chip_price.shape[1]
    for i in range(n):
        s, a, b, c = at[0, i], at[1, i], at[2, i], at[3, i]
        area[i] = (
            units[s, 0] * array_area[a].sum()
            + units[s, 1] * buffer_area[b].sum()
            + units[s, 2] * chip_area[c, 0]
            + chip_area[c, 1]
        )
        for w in range(n_w):
            total = 0.0
            for q in range(n_array):
                total += sums[s, w, q] * array_price[a, q]
            for q in range(n_buffer):
                total += sums[s, w, n_array + q] * buffer_price[b, q]
            for q in range(n_chip):
                total += sums[s, w, n_array + n_buffer + q] * chip_price[c, q]
            energy[i, w] = total
            cycles[i, w] = figures[s, w, FIG_CYCLES]
            utilization[i, w] = figures[s, w, FIG_UTILIZATION]
            latency[i, w] = cycles[i, w] * t_cycle_s[i]
            throughput[i, w] = 1.0 / latency[i, w]
            tops[i, w] = OPS_PER_MAC * macs[w] * throughput[i, w] / TERA
            per_w[i, w] = OPS_PER_MAC * macs[w] / total / TERA
            per_mm2[i, w] = tops[i, w] / area[i]
            edp[i, w] = total * latency[i, w]
    return energy, latency, area, utilization, throughput, cycles, tops, per_w, per_mm2, edp


def energy_parts(sums: np.ndarray, prices: np.ndarray) -> dict[str, np.ndarray]:
    """Energy per component in J.

    ``sums`` is ``(n, x, 28)`` (x: workloads or layers), ``prices`` ``(n, 28)``; each part is ``(n, x)``.
    """
    parts = {}
    for name, columns in ENERGY_COLUMNS.items():
        picked = list(columns)
        parts[name] = np.einsum("nxq,nq->nx", sums[..., picked], prices[:, picked])
    return parts


def area_parts(
    units: np.ndarray, array_area: np.ndarray, buffer_area: np.ndarray, chip_area: np.ndarray
) -> dict[str, np.ndarray]:
    """Area per component in mm2, each ``(n,)``, from ``units`` ``(n, 3)`` and the gathered areas."""
    one = np.where(np.isnan(units[:, 0]), np.nan, 1.0)
    areas = np.concatenate([array_area, buffer_area, chip_area], axis=1)
    counts = [units[:, 0]] * len(ARRAY_AREAS) + [units[:, 1]] * len(BUFFER_AREAS) + [units[:, 2], one]
    return {name: areas[:, i] * counts[i] for i, name in enumerate(AREA_COMPONENTS)}
