"""The physical preset's metrics from times, energy and area, in one pass."""

from __future__ import annotations

import numpy as np
from numba import njit

from cimopt_tiled.timing import R_LATENCY, R_LOADS, R_MOVING, R_PERIOD, R_SUM
from cimopt_tiled.totals import OPS_PER_MAC, TERA
from cimopt_tiled.work import FIG_UTILIZATION

# In the order of the columns below, each per design and workload.
PER_WORKLOAD = (
    "latency_s", "throughput_ips", "tops", "tops_per_w", "tops_per_mm2", "utilization", "edp", "cycles",
    "adc_bits_needed", "adc_clips", "bandwidth_bound", "swap_count", "program_time_s",
)  # fmt: skip


@njit(cache=True)
def needed_bits(largest):
    """Converter bits that hold every sum up to the largest, rows (2^dac - 1) (2^cell - 1): ceil(log2(largest + 1))."""
    levels = np.int64(largest)
    bits = 0
    while levels > 0:
        levels >>= 1
        bits += 1
    return bits


@njit(cache=True)
def fill_metrics(
    slots, figures, results, energy, area, macs, batch, programming, t_eff, t_program, adc_bits, out
):  # fmt: skip
    """Fill ``out`` ``(13, n, w)`` (`PER_WORKLOAD`); NaN where the weights do not fit.

    Args:
        slots: ``(n,)`` rows of ``figures`` ``(k, w, 2)``, -1 where the weights do not fit.
        results: ``(n, w, 8)`` of `cimopt_tiled.timing.evaluate_times`; energy ``(n, w)``; area ``(n,)``.
        macs: ``(w,)`` per inference; batch: inputs per weight load.
        programming: ``(n,)`` share of one batch in the programming time, s; t_program: ``(n,)`` all of it.
        t_eff: ``(n,)`` cycle, s; adc_bits: ``(n,)``.
    """
    for i in range(len(slots)):
        if slots[i] < 0:
            out[:, i] = np.nan
            continue
        for w in range(len(macs)):
            row = results[i, w]
            latency = row[R_LATENCY] + programming[i]
            throughput = batch / (row[R_PERIOD] + programming[i])
            operations = OPS_PER_MAC * macs[w]
            working = row[R_LATENCY] - row[R_MOVING]
            needed = needed_bits(row[R_SUM])
            out[0, i, w] = latency
            out[1, i, w] = throughput
            out[2, i, w] = operations * throughput / TERA
            out[3, i, w] = operations / energy[i, w] / TERA
            out[4, i, w] = operations * throughput / TERA / area[i]
            out[5, i, w] = figures[slots[i], w, FIG_UTILIZATION]
            out[6, i, w] = energy[i, w] * latency
            out[7, i, w] = working / t_eff[i]
            out[8, i, w] = needed
            out[9, i, w] = 1.0 if needed > adc_bits[i] else 0.0
            out[10, i, w] = 1.0 if row[R_MOVING] > working else 0.0
            out[11, i, w] = row[R_LOADS]
            out[12, i, w] = t_program[i]
