"""Energy and area of the physical preset by component, from sums, prices and times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from cimopt_tiled.prices import DRAM_J_PER_BIT
from cimopt_tiled.structure import N_BASIS, N_DATA_SUMS
from cimopt_tiled.timing import R_ADC, R_CONVERSIONS, R_PERIOD, R_SPILL
from cimopt_tiled.work import DYNAMIC_SUMS, PROGRAM_SUMS

ENERGY_PARTS = (
    "cells",
    "row_drivers",
    "adc",
    "shift_add",
    "weight_drivers",
    "input_buffers",
    "output_buffers",
    "router",
    "glb",
    "dram",
    "dram_spill",
    "dynamic_writes",
    "programming",
    "leakage",
    "idle",
)
N_PARTS = len(ENERGY_PARTS)
AREA_PARTS = (
    "cells", "row_drivers", "weight_drivers", "column_drivers", "adc", "shift_add", "input_buffers",
    "output_buffers", "router", "glb",
)  # fmt: skip
_CELL, _ROW, _WRITE, _DRIVER = 0, N_BASIS, 3 * N_BASIS, 4 * N_BASIS
_IN, _OUT, _ROUTER, _GLB, _DRAM = (N_DATA_SUMS + k for k in (0, 2, 4, 5, 7))


class Costs(NamedTuple):
    """Per-design factors of energy, each ``(n,)``.

    Attributes:
        cell: on cell reads (how long a cell conducts).
        adc: on the converter price (resolution).
        shift_add_j: one shift-and-add; 0 when the effect is off.
        load: on weight movement (1 / batch).
        write: on writes of dynamic operands (programming pulses); 0 when the effect is off.
        program: on programming (pulses / inferences); 0 when the effect is off.
        leak_w, idle_w: static power while working and between inferences; 0 when off.
        inference_s: time between inferences that idling fills up; 0: none.
        batch: inputs per weight load.
    """

    cell: np.ndarray
    adc: np.ndarray
    shift_add_j: np.ndarray
    load: np.ndarray
    write: np.ndarray
    program: np.ndarray
    leak_w: np.ndarray
    idle_w: np.ndarray
    inference_s: np.ndarray
    batch: np.ndarray


@njit(cache=True, inline="always")
def _dot(sums, price, start, length, offset):
    total = 0.0
    for q in range(start, start + length):
        total += sums[q] * price[q - offset]
    return total


@njit(cache=True)
def energy_parts(sums, results, share, array_price, buffer_price, chip_price, costs, i, parts):
    """Fill ``parts`` ``(15,)`` (`ENERGY_PARTS`, J per inference) for design ``i``.

    ``sums`` ``(44,)`` and ``results`` ``(8,)`` are a workload's, or one layer's, which then carries ``share`` of
    the static energy.
    """
    parts[0] = _dot(sums, array_price, _CELL, N_BASIS, 0) * costs.cell[i]
    parts[0] += _dot(sums, array_price, _WRITE, N_BASIS, 0) * costs.load[i]
    parts[1] = _dot(sums, array_price, _ROW, N_BASIS, 0)
    parts[2] = results[R_ADC] * costs.adc[i]
    parts[3] = results[R_CONVERSIONS] * costs.shift_add_j[i]
    parts[4] = _dot(sums, array_price, _DRIVER, N_BASIS, 0) * costs.load[i]
    parts[5] = _dot(sums, buffer_price, _IN, 2, N_DATA_SUMS)
    parts[6] = _dot(sums, buffer_price, _OUT, 2, N_DATA_SUMS)
    parts[7] = _dot(sums, chip_price, _ROUTER, 1, _ROUTER)
    parts[8] = _dot(sums, chip_price, _GLB, 2, _ROUTER)
    parts[9] = _dot(sums, chip_price, _DRAM, 1, _ROUTER) * costs.load[i]
    parts[10] = results[R_SPILL] * DRAM_J_PER_BIT
    both = 2 * N_BASIS
    parts[11] = _dot(sums, array_price, DYNAMIC_SUMS, both, DYNAMIC_SUMS - _WRITE) * costs.write[i]
    parts[12] = _dot(sums, array_price, PROGRAM_SUMS, both, PROGRAM_SUMS - _WRITE) * costs.program[i]
    each = results[R_PERIOD] / costs.batch[i]
    parts[13] = costs.leak_w[i] * each * share
    parts[14] = costs.idle_w[i] * max(0.0, costs.inference_s[i] - each) * share


@njit(cache=True)
def total_energy(at, sums, results, array_price, buffer_price, chip_price, costs, program_j, energy, kept, keep):
    """Energy ``(n, w)`` J, programming energy ``(n, w)`` J per programming and, on request, parts ``(n, w, 15)``.

    ``at`` ``(4, n)`` are slots of ``sums`` (-1: the weights do not fit) and rows in the array, buffer and chip tables.
    """
    parts = np.empty(N_PARTS)
    for i in range(at.shape[1]):
        s, a, b, c = at[0, i], at[1, i], at[2, i], at[3, i]
        for w in range(energy.shape[1]):
            if s < 0:
                parts[:] = np.nan
                program_j[i, w] = np.nan
            else:
                energy_parts(
                    sums[s, w], results[i, w], 1.0, array_price[a], buffer_price[b], chip_price[c], costs, i, parts
                )
                program_j[i, w] = _dot(sums[s, w], array_price[a], PROGRAM_SUMS, 2 * N_BASIS, PROGRAM_SUMS - _WRITE)
            energy[i, w] = parts.sum()
            if keep:
                kept[i, w] = parts


@njit(cache=True)
def layer_energy(sums, results, share, array_price, buffer_price, chip_price, costs, out):
    """Parts ``(n, L, 15)`` of every layer, from ``sums`` ``(n, L, 44)``, ``results`` ``(n, L, 8)`` and ``share`` ``(n, L)``."""
    for i in range(len(sums)):
        for j in range(sums.shape[1]):
            energy_parts(
                sums[i, j], results[i, j], share[i, j], array_price[i], buffer_price[i], chip_price[i], costs, i,
                out[i, j],
            )  # fmt: skip
