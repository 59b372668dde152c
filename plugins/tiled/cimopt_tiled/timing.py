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
T_COMPUTE, T_SERIAL, T_ROWS, T_SHARING, T_SLOW, T_BUFFER, T_NOC, T_GLB, T_DRAM, T_SWAP, T_DYNAMIC = range(N_TERMS)


class Physics(NamedTuple):
    """Settings as numbers; an effect that is off has the neutral value (infinite rates, one step, 0 s).

    Attributes:
        limits_rows, shares: whether the row limit and converter sharing hold.
        dram_s_per_bit, noc_s_per_word: seconds; 0 when the effect is off, as the times of `Point` then are.
        batch: inputs per weight load.
        spills: 1 or 0.
        pipelined: whether RRAM layers overlap between inputs.
    """

    limits_rows: bool
    shares: bool
    dram_s_per_bit: float
    noc_s_per_word: float
    batch: float
    spills: float
    pipelined: bool


class Point(NamedTuple):
    """One design, as far as time depends on it.

    Attributes:
        t_cycle_s, t_eff_s: asked and possible cycle.
        per_row, per_adc: 1 / rows read at once, 1 / converters per array.
        tile_in_s, tile_out_s, glb_s: seconds per access of the buffers.
        glb_bits: size of the global buffer.
        write_row_s: seconds to write one row.
    """

    t_cycle_s: float
    t_eff_s: float
    per_row: float
    per_adc: float
    tile_in_s: float
    tile_out_s: float
    glb_s: float
    glb_bits: float
    write_row_s: float


# Counts up to thousands divided by counts are never this close above a whole number without being it.
_WHOLE = 1e-9


@njit(cache=True, inline="always")
def read_steps(work, point, physics):
    """Reads of an array per input step, and conversions one after another per read."""
    passes = np.ceil(work[ROWS] * point.per_row - _WHOLE) if physics.limits_rows else 1.0
    shares = np.ceil(work[COLS] * point.per_adc - _WHOLE) if physics.shares else 1.0
    return passes, shares


@njit(cache=True, inline="always")
def spilled_bits(activation_bits, point, physics):
    """Bits that cross the DRAM interface per batch: what does not fit goes out once and comes back once."""
    return physics.spills * 2.0 * max(0.0, physics.batch * activation_bits - point.glb_bits)


@njit(cache=True, inline="always")
def array_seconds(cycles, slow, steps, passes, shares, point, physics):
    """Seconds the arrays work on one repeat of a layer, for one batch; ``steps`` of each input."""
    return cycles * slow * physics.batch * steps * passes * shares * point.t_eff_s


@njit(cache=True, inline="always")
def resource_seconds(work, spill, point, physics):
    """Seconds that tile buffers, routers, global buffer and DRAM are busy with one repeat, for one batch."""
    batch = physics.batch
    buffers = batch * max(work[IN_TILE] * point.tile_in_s, work[OUT_TILE] * point.tile_out_s)
    noc = batch * work[NOC] * physics.noc_s_per_word
    return buffers, noc, batch * work[GLB] * point.glb_s, spill * physics.dram_s_per_bit


@njit(cache=True, inline="always")
def load_seconds(work, dynamic, point, physics):
    """Seconds to bring a layer's weights in: the slowest of DRAM, router ports and writing rows.

    Weights are loaded once per batch, a dynamic operand for every input.
    """
    port = work[PORT] * physics.noc_s_per_word
    once = max(max(work[DRAM] * physics.dram_s_per_bit, port), work[WRITE_ROWS] * point.write_row_s)
    return once * physics.batch if dynamic else once


@njit(cache=True)
def layer_terms(cycles, slow, work, steps, activation_bits, dynamic, point, physics, terms):
    """Fill ``terms`` ``(11,)`` (`LATENCY_TERMS`, s) for one repeat of a layer and one batch.

    ``slow`` is how much longer fewer copies of the weights take, ``steps`` how many an input takes.
    """
    passes, shares = read_steps(work, point, physics)
    base = cycles * slow * physics.batch
    terms[T_COMPUTE] = base * point.t_cycle_s
    terms[T_SERIAL] = base * (steps - 1.0) * point.t_cycle_s
    terms[T_ROWS] = base * steps * (passes - 1.0) * point.t_cycle_s
    terms[T_SHARING] = base * steps * passes * (shares - 1.0) * point.t_cycle_s
    terms[T_SLOW] = base * steps * passes * shares * (point.t_eff_s - point.t_cycle_s)

    spill = spilled_bits(activation_bits, point, physics)
    buffers, noc, glb, dram = resource_seconds(work, spill, point, physics)
    slowest = max(max(buffers, noc), max(glb, dram))
    wait = max(0.0, slowest - array_seconds(cycles, slow, steps, passes, shares, point, physics))
    terms[T_BUFFER] = wait if buffers == slowest else 0.0
    terms[T_NOC] = wait if noc == slowest and buffers < slowest else 0.0
    terms[T_GLB] = wait if glb == slowest and max(buffers, noc) < slowest else 0.0
    terms[T_DRAM] = wait if max(max(buffers, noc), glb) < slowest else 0.0

    load = load_seconds(work, dynamic, point, physics)
    terms[T_SWAP] = 0.0 if dynamic else load
    terms[T_DYNAMIC] = load if dynamic else 0.0


@njit(cache=True, inline="always")
def conversions(cycles, work, steps, passes):
    """Conversions of all arrays for one repeat of a layer and one input."""
    return cycles * work[MEAN_ARRAYS] * work[COLS] * steps * passes


# Figures of one design and workload: time of a batch, time between batches, conversions weighed by the tables'
# price, conversions, time waited or spent on weights, spilled bits, weight loads, largest sum of a column.
N_RESULTS = 8
R_LATENCY, R_PERIOD, R_ADC, R_CONVERSIONS, R_MOVING, R_SPILL, R_LOADS, R_SUM = range(N_RESULTS)


@njit(cache=True)
def workload_times(
    starts, entries, repeats, entry_basis, steps, levels, activation_bits, dynamic, is_sram, cycles, slowed, work,
    adc_price, point, physics, out,
):  # fmt: skip
    """Sum one workload's layers into ``out`` ``(8,)``.

    ``starts`` is the range of this workload in ``entries`` (layer row), ``repeats`` and ``entry_basis``
    ``(e, 4)``; ``steps`` ``(k,)`` of an input and ``levels`` ``(k,)``, the largest value a row adds to a sum;
    ``cycles`` ``(k,)``, ``slowed`` ``(k,)`` and ``work`` ``(k, 11)`` belong to one structure.
    """
    latency, longest, shared, glb_busy, dram_busy = 0.0, 0.0, 0.0, 0.0, 0.0
    adc, converted, moving, spilled, loads, largest = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    at_once = np.rint(1.0 / point.per_row) if physics.limits_rows else np.inf
    for e in range(starts[0], starts[1]):
        k = entries[e]
        passes, shares = read_steps(work[k], point, physics)
        working = array_seconds(cycles[k], slowed[k], steps[k], passes, shares, point, physics)
        spill = spilled_bits(activation_bits[k], point, physics)
        buffers, noc, glb, dram = resource_seconds(work[k], spill, point, physics)
        wait = max(0.0, max(max(buffers, noc), max(glb, dram)) - working)
        load = load_seconds(work[k], dynamic[k], point, physics)
        one, repeat = working + wait + load, repeats[e]
        latency += one * repeat
        moving += (wait + load) * repeat
        if dynamic[k]:  # there is room for one dynamic operand: these layers take the same cells in turn
            shared += one * repeat
        else:
            longest = max(longest, one)
        glb_busy += glb * repeat
        dram_busy += dram * repeat
        price = 0.0
        for b in range(N_BASIS):
            price += adc_price[b] * entry_basis[e, b]
        count = conversions(cycles[k], work[k], steps[k], passes)
        adc += count * price
        converted += count * repeat
        spilled += spill * repeat
        loads += work[k, LOADS] * repeat * (physics.batch if dynamic[k] else 1.0)
        largest = max(largest, min(work[k, ROWS], at_once) * levels[k])
    out[R_LATENCY], out[R_ADC], out[R_CONVERSIONS], out[R_MOVING] = latency, adc, converted, moving
    out[R_SPILL], out[R_LOADS] = spilled / physics.batch, loads
    out[R_SUM] = largest
    out[R_PERIOD] = latency
    if physics.pipelined and not is_sram:
        out[R_PERIOD] = max(max(longest, shared), max(glb_busy, dram_busy))


@njit(cache=True)
def workload_terms(
    starts, entries, repeats, steps, activation_bits, dynamic, cycles, slowed, work, point, physics, terms, total
):
    """Sum the latency terms of one workload's layers into ``total`` ``(11,)``."""
    total[:] = 0.0
    for e in range(starts[0], starts[1]):
        k = entries[e]
        layer_terms(cycles[k], slowed[k], work[k], steps[k], activation_bits[k], dynamic[k], point, physics, terms)
        for t in range(N_TERMS):
            total[t] += terms[t] * repeats[e]


@njit(cache=True, inline="always")
def _point(row):
    return Point(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8])


@njit(cache=True)
def evaluate_times(
    at, is_sram, bits, starts, entries, repeats, entry_basis, steps, levels, activation_bits, dynamic,
    cycles, slowed, work, adc_prices, points, physics, results, all_terms, keep_terms,
):  # fmt: skip
    """Fill ``results`` ``(n, w, 8)`` and, on request, ``all_terms`` ``(n, w, 11)``.

    ``at`` is ``(2, n)``: slots of ``cycles``, ``slowed`` and ``work``, -1 where the weights do not fit (results are
    NaN there), and rows in the array table; ``bits`` ``(n,)`` per cell, which choose the row of ``entry_basis``
    ``(8, e, 4)`` and ``levels`` ``(8, k)``; ``adc_prices`` ``(a, 4)``; ``points`` ``(n, 9)`` in the order of `Point`.
    """
    terms = np.empty(N_TERMS)
    for i in range(at.shape[1]):
        s, a = at[0, i], at[1, i]
        if s < 0:
            results[i] = np.nan
            if keep_terms:
                all_terms[i] = np.nan
            continue
        point, basis = _point(points[i]), entry_basis[bits[i] - 1]
        for w in range(results.shape[1]):
            some = starts[w : w + 2]
            workload_times(
                some, entries, repeats, basis, steps, levels[bits[i] - 1], activation_bits, dynamic, is_sram[i],
                cycles[s], slowed[s, w], work[s], adc_prices[a], point, physics, results[i, w],
            )  # fmt: skip
            if keep_terms:
                workload_terms(
                    some, entries, repeats, steps, activation_bits, dynamic,
                    cycles[s], slowed[s, w], work[s], point, physics, terms, all_terms[i, w],
                )  # fmt: skip


@njit(cache=True)
def layer_times(
    occurrence, slowed, cycles, work, steps, activation_bits, dynamic, points, physics, terms, convs, spill
):
    """Per-layer terms ``(n, L, 11)`` s per batch, conversions ``(n, L)`` and spilled bits ``(n, L)``, per repeat.

    ``occurrence`` ``(L,)`` are layer rows; ``slowed`` ``(n, k)``, ``cycles`` ``(n, k)``, ``work`` ``(n, k, 11)``.
    """
    for i in range(len(points)):
        point = _point(points[i])
        for j in range(len(occurrence)):
            k = occurrence[j]
            layer_terms(
                cycles[i, k],
                slowed[i, k],
                work[i, k],
                steps[k],
                activation_bits[k],
                dynamic[k],
                point,
                physics,
                terms[i, j],
            )
            passes, _ = read_steps(work[i, k], point, physics)
            convs[i, j] = conversions(cycles[i, k], work[i, k], steps[k], passes)
            spill[i, j] = spilled_bits(activation_bits[k], point, physics) / physics.batch
