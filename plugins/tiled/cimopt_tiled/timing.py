"""Time and energy of designs under the physical preset's effects: one loop over the layers of each workload."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from cimopt_tiled.structure import N_BASIS
from cimopt_tiled.work import COLS, DRAM, GLB, IN_TILE, LOADS, MEAN_ARRAYS, NOC, OUT_TILE, PORT, ROWS, WRITE_ROWS

# Latency terms of one layer, in order. The first five are the array at work: as published, then what each
# effect adds. The next four are waiting for the slowest of buffers, routers, global buffer and DRAM (only one
# of them is not 0). Then bringing in weights, and writing dynamic operands.
LATENCY_TERMS = (
    "compute",
    "bit_serial",
    "row_limit",
    "adc_sharing",
    "min_cycle_time",
    "buffer_wait",
    "noc_wait",
    "glb_wait",
    "dram_wait",
    "weight_swap",
    "dynamic_writes",
)
N_TERMS = len(LATENCY_TERMS)
N_WORKING = 5
T_COMPUTE, T_SERIAL, T_ROWS, T_SHARING, T_SLOW, T_BUFFER, T_NOC, T_GLB, T_DRAM, T_SWAP, T_DYNAMIC = range(N_TERMS)


class Physics(NamedTuple):
    """Settings as numbers; an effect that is off has the neutral value (infinite rates, one step, 0 s).

    Attributes:
        input_steps: steps of an 8-bit input.
        limits_rows, shares: whether the row limit and converter sharing hold.
        dram_s_per_bit, noc_s_per_word: seconds; 0 when the effect is off.
        uses_tile_rate, uses_glb_rate: 1 or 0, factor on the buffers' seconds per access.
        write_rows: 1 or 0, whether writing rows takes time.
        batch: inputs per weight load.
        spills: 1 or 0.
        pipelined: whether RRAM layers overlap between inputs.
    """

    input_steps: float
    limits_rows: bool
    shares: bool
    dram_s_per_bit: float
    noc_s_per_word: float
    uses_tile_rate: float
    uses_glb_rate: float
    write_rows: float
    batch: float
    spills: float
    pipelined: bool


class Point(NamedTuple):
    """One design, as far as time depends on it.

    Attributes:
        t_cycle_s, t_eff_s: asked and possible cycle.
        rows_per_read, n_adc: rows read at once, converters per array.
        tile_in_s, tile_out_s, glb_s: seconds per access of the buffers.
        glb_bits: size of the global buffer.
        write_row_s: seconds to write one row.
    """

    t_cycle_s: float
    t_eff_s: float
    rows_per_read: float
    n_adc: float
    tile_in_s: float
    tile_out_s: float
    glb_s: float
    glb_bits: float
    write_row_s: float


@njit(cache=True, inline="always")
def read_steps(work, point, physics):
    """Reads of an array per input step, and conversions one after another per read."""
    passes = np.ceil(work[ROWS] / point.rows_per_read) if physics.limits_rows else 1.0
    shares = np.ceil(work[COLS] / point.n_adc) if physics.shares else 1.0
    return passes, shares


@njit(cache=True, inline="always")
def spilled_bits(activation_bits, point, physics):
    """Bits that cross the DRAM interface per batch: what does not fit goes out once and comes back once."""
    return physics.spills * 2.0 * max(0.0, physics.batch * activation_bits - point.glb_bits)


@njit(cache=True)
def layer_terms(cycles, slow, work, activation_bits, dynamic, point, physics, terms):
    """Fill ``terms`` ``(11,)`` (`LATENCY_TERMS`, s) for one repeat of a layer and one batch.

    ``slow`` is how much longer fewer copies of the weights take.
    """
    passes, shares = read_steps(work, point, physics)
    batch = physics.batch
    base = cycles * slow * batch
    steps = physics.input_steps
    terms[T_COMPUTE] = base * point.t_cycle_s
    terms[T_SERIAL] = base * (steps - 1.0) * point.t_cycle_s
    terms[T_ROWS] = base * steps * (passes - 1.0) * point.t_cycle_s
    terms[T_SHARING] = base * steps * passes * (shares - 1.0) * point.t_cycle_s
    terms[T_SLOW] = base * steps * passes * shares * (point.t_eff_s - point.t_cycle_s)
    working = base * steps * passes * shares * point.t_eff_s

    buffers = slow * batch * max(work[IN_TILE] * point.tile_in_s, work[OUT_TILE] * point.tile_out_s)
    noc = slow * batch * work[NOC] * physics.noc_s_per_word
    glb = batch * work[GLB] * point.glb_s
    dram = spilled_bits(activation_bits, point, physics) * physics.dram_s_per_bit
    slowest = max(max(buffers, noc), max(glb, dram))
    wait = max(0.0, slowest - working)
    terms[T_BUFFER] = wait if buffers == slowest else 0.0
    terms[T_NOC] = wait if noc == slowest and buffers < slowest else 0.0
    terms[T_GLB] = wait if glb == slowest and max(buffers, noc) < slowest else 0.0
    terms[T_DRAM] = wait if max(max(buffers, noc), glb) < slowest else 0.0

    port = work[PORT] * physics.noc_s_per_word
    load = max(max(work[DRAM] * physics.dram_s_per_bit, port), work[WRITE_ROWS] * point.write_row_s)
    terms[T_SWAP] = 0.0 if dynamic else load
    terms[T_DYNAMIC] = load * batch if dynamic else 0.0
    return glb, dram


@njit(cache=True, inline="always")
def conversions(cycles, work, point, physics):
    """Conversions of all arrays for one repeat of a layer and one input."""
    passes, _ = read_steps(work, point, physics)
    return cycles * work[MEAN_ARRAYS] * work[COLS] * physics.input_steps * passes


# Figures of one design and workload: time of a batch, time between batches, conversions weighed by the tables'
# price, conversions, time waited or spent on weights, spilled bits, weight loads, rows read at once.
N_RESULTS = 8
R_LATENCY, R_PERIOD, R_ADC, R_CONVERSIONS, R_MOVING, R_SPILL, R_LOADS, R_ROWS = range(N_RESULTS)


@njit(cache=True)
def workload_times(
    starts, entries, repeats, entry_basis, activation_bits, dynamic, is_sram, bits, cycles, slowed, work,
    adc_price, point, physics, terms, total_terms, out,
):  # fmt: skip
    """Sum one workload's layers into ``out`` ``(8,)`` and ``total_terms`` ``(11,)``.

    ``starts`` is the range of this workload in ``entries`` (layer row), ``repeats`` and ``entry_basis``
    ``(8, e, 4)``; ``cycles`` ``(k,)``, ``slowed`` ``(k,)`` and ``work`` ``(k, 11)`` belong to one structure.
    """
    out[:] = 0.0
    total_terms[:] = 0.0
    longest, glb_busy, dram_busy = 0.0, 0.0, 0.0
    for e in range(starts[0], starts[1]):
        k = entries[e]
        glb, dram = layer_terms(
            cycles[k], slowed[k], work[k], activation_bits[k], dynamic[k], point, physics, terms
        )
        one = 0.0
        for t in range(N_TERMS):
            one += terms[t]
            total_terms[t] += terms[t] * repeats[e]
        out[R_LATENCY] += one * repeats[e]
        for t in range(N_WORKING, N_TERMS):
            out[R_MOVING] += terms[t] * repeats[e]
        longest = max(longest, one)
        glb_busy += glb * repeats[e]
        dram_busy += dram * repeats[e]
        price = 0.0
        for b in range(N_BASIS):
            price += adc_price[b] * entry_basis[bits - 1, e, b]
        converted = conversions(cycles[k], work[k], point, physics)
        out[R_ADC] += converted * price
        out[R_CONVERSIONS] += converted * repeats[e]
        out[R_SPILL] += spilled_bits(activation_bits[k], point, physics) / physics.batch * repeats[e]
        out[R_LOADS] += work[k, LOADS] * repeats[e] * (physics.batch if dynamic[k] else 1.0)
        out[R_ROWS] = max(out[R_ROWS], work[k, ROWS])
    if physics.limits_rows:
        out[R_ROWS] = min(out[R_ROWS], point.rows_per_read)
    out[R_PERIOD] = out[R_LATENCY]
    if physics.pipelined and not is_sram:
        out[R_PERIOD] = max(longest, max(glb_busy, dram_busy))


@njit(cache=True)
def evaluate_times(
    at, is_sram, bits, starts, entries, repeats, entry_basis, activation_bits, dynamic,
    cycles, slowed, work, fits, adc_prices, points, physics, results, all_terms, keep_terms,
):  # fmt: skip
    """Fill ``results`` ``(n, w, 8)`` and, on request, ``all_terms`` ``(n, w, 11)``.

    ``at`` is ``(2, n)``: rows in the structure and array tables; ``adc_prices`` ``(a, 4)``;
    ``points`` ``(n, 9)`` in the order of `Point`; NaN where the weights do not fit.
    """
    terms, total = np.empty(N_TERMS), np.empty(N_TERMS)
    for i in range(at.shape[1]):
        s, a = at[0, i], at[1, i]
        if not fits[s]:
            results[i] = np.nan
            if keep_terms:
                all_terms[i] = np.nan
            continue
        row = points[i]
        point = Point(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8])
        for w in range(results.shape[1]):
            workload_times(
                starts[w : w + 2], entries, repeats, entry_basis, activation_bits, dynamic, is_sram[i], bits[s],
                cycles[s], slowed[s, w], work[s], adc_prices[a], point, physics, terms, total, results[i, w],
            )  # fmt: skip
            if keep_terms:
                all_terms[i, w] = total


@njit(cache=True)
def layer_times(occurrence, slowed, cycles, work, activation_bits, dynamic, points, physics, terms, convs, spill):
    """Per-layer terms ``(n, L, 11)`` s per batch, conversions ``(n, L)`` and spilled bits ``(n, L)``, per repeat.

    ``occurrence`` ``(L,)`` are layer rows; ``slowed`` ``(n, k)``, ``cycles`` ``(n, k)``, ``work`` ``(n, k, 11)``.
    """
    for i in range(len(points)):
        row = points[i]
        point = Point(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8])
        for j in range(len(occurrence)):
            k = occurrence[j]
            layer_terms(
                cycles[i, k], slowed[i, k], work[i, k], activation_bits[k], dynamic[k], point, physics, terms[i, j]
            )
            convs[i, j] = conversions(cycles[i, k], work[i, k], point, physics)
            spill[i, j] = spilled_bits(activation_bits[k], point, physics) / physics.batch
