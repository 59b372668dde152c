"""The hot loops, compiled. Each has a plain twin in `cimopt_zeroskip.plain` with equal results.

Imported on first use only: numba is heavy.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANE_ROWS = 255  # ones that an 8-bit lane counts without overflow
STEPS_PER_COPY = 64  # longest operation per copy up to which buckets beat a heap


@njit(cache=True)
def count_planes(flat, bases, offsets, bounds, lanes, out):
    """Ones per plane, added to ``out`` int16 ``(patches, blocks, 8)``.

    One table entry holds the 8 planes of a byte as 8 lanes of a 64-bit word, so a block's eight counts are
    one sum of words (Breaking Barriers, section III: only ones per plane matter).

    Args:
        flat: uint8, the padded inputs. bases: int64 ``(patches,)``, where a patch starts in them.
        offsets: int64 ``(rows,)``, where a row lies from there. bounds: int64 ``(blocks + 1,)`` in rows.
        lanes: uint64 ``(256,)``.
    """
    mask = np.uint64(255)
    for p in range(bases.shape[0]):
        base = bases[p]
        for b in range(bounds.shape[0] - 1):
            row, stop = bounds[b], bounds[b + 1]
            while row < stop:
                end = min(row + LANE_ROWS, stop)
                total = np.uint64(0)
                for i in range(row, end):
                    total += lanes[flat[base + offsets[i]]]
                for k in range(8):
                    out[p, b, k] += np.int16((total >> np.uint64(8 * k)) & mask)
                row = end


@njit(cache=True)
def sum_costs(counts, table, out):
    """``out[b, p] = sum_k table[k, counts[p, b, k]]``; counts int16 ``(p, b, bits)``, out int32 ``(b, p)``."""
    for p in range(counts.shape[0]):
        for b in range(counts.shape[1]):
            total = 0
            for k in range(counts.shape[2]):
                total += table[k, counts[p, b, k]]
            out[b, p] = total


@njit(cache=True)
def makespan(times, copies, limit):
    """End of the last of ``times`` (in order, each to the first free of ``copies``); stops beyond ``limit``.

    Copies are alike, so only the times at which some copy gets free matter, not which one.
    """
    n = times.shape[0]
    last = np.int64(0)
    if copies == 1:
        for i in range(n):
            last += times[i]
        return last
    longest = np.int64(0)
    for i in range(n):
        longest = max(longest, times[i])
    if copies >= n:
        return longest
    if longest <= STEPS_PER_COPY * copies:
        return _by_buckets(times, copies, limit, longest)
    return _by_heap(times, copies, limit)


@njit(cache=True)
def _by_buckets(times, copies, limit, longest):
    """Copies counted by the cycle they get free in: those cycles never go back and span ``longest`` at most."""
    size = 1
    while size <= longest:
        size *= 2
    free = np.zeros(size, np.int64)
    free[0] = copies
    now = last = np.int64(0)
    for i in range(times.shape[0]):
        while free[now & (size - 1)] == 0:
            now += 1
        free[now & (size - 1)] -= 1
        end = now + times[i]
        free[end & (size - 1)] += 1
        if end > last:
            last = end
            if last > limit:
                return last
    return last


@njit(cache=True)
def _by_heap(times, copies, limit):
    """A binary heap of the times at which copies get free."""
    last = np.int64(0)
    heap = np.zeros(copies, np.int64)
    for i in range(times.shape[0]):
        end = heap[0] + times[i]
        if end > last:
            last = end
            if last > limit:
                return last
        hole = 0
        while True:
            child = 2 * hole + 1
            if child >= copies:
                break
            if child + 1 < copies and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= end:
                break
            heap[hole] = heap[child]
            hole = child
        heap[hole] = end
    return last


@njit(cache=True)
def unit_cycles(jobs, copies, limit):
    """Makespans summed over images, int64 ``(units,)``; jobs int32 ``(images, units, patches)``."""
    out = np.zeros(jobs.shape[1], np.int64)
    for u in range(jobs.shape[1]):
        for i in range(jobs.shape[0]):
            out[u] += makespan(jobs[i, u], copies[u], limit - out[u])
            if out[u] > limit:
                break
    return out


@njit(cache=True)
def _within(jobs, unit, copies, limit):
    """Whether the makespans of one unit, summed over images, stay within ``limit``."""
    total = np.int64(0)
    for i in range(jobs.shape[0]):
        total += makespan(jobs[i, unit], copies, limit - total)
        if total > limit:
            return False
    return True


@njit(cache=True)
def fewest_copies(jobs, totals, limit, low, high):
    """Fewest copies per unit whose makespans (summed over images) stay within ``limit``; 0: no number does.

    Makespans of independent jobs in a fixed order never grow with the copies, so bisection is exact.

    Args:
        jobs: int32 ``(images, units, patches)``; totals: int64 ``(units,)``, summed jobs.
        low, high: int64 ``(units,)``: the number is known to be at least ``low``, at most ``high`` (0: not known).
    """
    n = jobs.shape[2]
    out = np.zeros(jobs.shape[1], np.int64)
    for u in range(jobs.shape[1]):
        fails, works = max(low[u], -(-totals[u] // max(limit, 1))) - 1, high[u]
        step, trial = 1, fails + 1
        while works == 0:
            trial = min(trial, n)
            if _within(jobs, u, trial, limit):
                works = trial
            elif trial == n:
                break
            else:
                fails, trial, step = trial, trial + step, 2 * step
        while works - fails > 1:
            middle = (works + fails) // 2
            if _within(jobs, u, middle, limit):
                works = middle
            else:
                fails = middle
        out[u] = works
    return out


@njit(cache=True)
def greedy(work, sizes, copies, left):
    """Give copies to the unit with the highest work / copies (first index on ties) while it fits.

    Changes ``copies`` int64 ``(units,)``; returns the arrays left over. Heap keyed by (-estimate, index).
    """
    n = work.shape[0]
    key, unit = work / copies, np.arange(n)
    for start in range(n // 2 - 1, -1, -1):
        _sink(key, unit, start)
    while n and sizes[unit[0]] <= left:
        top = unit[0]
        left -= sizes[top]
        copies[top] += 1
        key[0] = work[top] / copies[top]
        _sink(key, unit, 0)
    return left


@njit(cache=True)
def _before(key, unit, a, b):
    return key[a] > key[b] or (key[a] == key[b] and unit[a] < unit[b])


@njit(cache=True)
def _sink(key, unit, at):
    n = key.shape[0]
    while True:
        child = 2 * at + 1
        if child >= n:
            return
        if child + 1 < n and _before(key, unit, child + 1, child):
            child += 1
        if _before(key, unit, at, child):
            return
        key[at], key[child] = key[child], key[at]
        unit[at], unit[child] = unit[child], unit[at]
        at = child
