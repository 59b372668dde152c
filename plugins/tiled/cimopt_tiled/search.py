"""The search for the factors that fill one level best (IMC model note, 2.2).

A level with ``capacity`` places takes a factor of each of up to three dimensions. The search is
recursive, in IEEE double precision and in a stated order, because the published cycles depend on both:
exact fractions or another order pick other factors on ties.

Results are memoised in an open-addressing table over ``(v0, v1, v2, capacity)``: the answer is a pure
function of those four numbers and the same few thousand appear millions of times in a design space. The
table never grows: where it is full, new answers replace old ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

# Memo key layout, 62 bits: three 17-bit counts and an 11-bit capacity. What does not fit is searched
# without the memo, which is slower and gives the same answer.
_COUNT_BITS = 17
_CAPACITY_BITS = 11
_PROBES = 16


class Memo(NamedTuple):
    """Known answers: keys ``(slots,)`` (0 is free), utilisations ``(slots,)``, factors ``(slots, 3)``."""

    keys: np.ndarray
    utils: np.ndarray
    factors: np.ndarray


def new_memo(bits: int = 18) -> Memo:
    """Return an empty memo of ``2**bits`` slots; memory is touched only where it is used."""
    slots = 1 << bits
    return Memo(np.zeros(slots, np.int64), np.zeros(slots), np.zeros((slots, 3), np.int64))


@njit(cache=True)
def _slot(keys, key):
    """Slot that holds ``key`` or is free for it; when its neighbourhood is full, the slot to replace."""
    mask = keys.shape[0] - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    start = np.int64(mixed >> np.uint64(32)) & mask
    for probe in range(_PROBES):
        at = (start + probe) & mask
        if keys[at] == key or keys[at] == 0:
            return at
    return start


@njit(cache=True)
def _partial(value, capacity, credit_exact):
    """Factor and utilisation when ``value > capacity`` is cut into equal parts with a rest."""
    parts = (value + capacity - 1) // capacity
    part = (value + parts - 1) // parts
    rest = value % part
    if credit_exact and rest == 0:
        rest = part
    return part, (part * (parts - 1) + rest) / parts


@njit(cache=True)
def best_factors(v0, v1, v2, capacity, credit_exact, memo):
    """Factors of three counts that fill ``capacity`` best: ``(utilisation, f0, f1, f2)``.

    For each count in order: first the partial split (only when the count exceeds the capacity; it ends
    the search), then each distinct prime in ascending order, whose utilisation is the prime times that
    of the rest. Only a strictly greater utilisation replaces the best, which starts at 1 (take nothing).
    """
    if capacity <= 1 or (v0 == 1 and v1 == 1 and v2 == 1):
        return 1.0, np.int64(1), np.int64(1), np.int64(1)
    top = v0 if v0 > v1 else v1
    top = v2 if v2 > top else top
    at = np.int64(-1)
    key = np.int64(0)
    if top < (1 << _COUNT_BITS) and capacity < (1 << _CAPACITY_BITS):
        key = ((v0 << _COUNT_BITS | v1) << _COUNT_BITS | v2) << _CAPACITY_BITS | capacity
        at = _slot(memo.keys, key)
        if at >= 0 and memo.keys[at] == key:
            return memo.utils[at], memo.factors[at, 0], memo.factors[at, 1], memo.factors[at, 2]

    best, b0, b1, b2 = 1.0, np.int64(1), np.int64(1), np.int64(1)
    for dim in range(3):
        value = v0 if dim == 0 else (v1 if dim == 1 else v2)
        if value == 1:
            continue
        if value > capacity:
            part, util = _partial(value, capacity, credit_exact)
            if util > best:
                best = util
                b0 = part if dim == 0 else np.int64(1)
                b1 = part if dim == 1 else np.int64(1)
                b2 = part if dim == 2 else np.int64(1)
        rest, prime = value, np.int64(2)
        while rest > 1:
            if prime * prime > rest:
                prime = rest
            if prime > capacity:
                break
            if rest % prime:
                prime += 1
                continue
            while rest % prime == 0:
                rest //= prime
            w0 = v0 // prime if dim == 0 else v0
            w1 = v1 // prime if dim == 1 else v1
            w2 = v2 // prime if dim == 2 else v2
            util, f0, f1, f2 = best_factors(w0, w1, w2, capacity // prime, credit_exact, memo)
            util = prime * util
            if util > best:
                best = util
                b0 = f0 * prime if dim == 0 else f0
                b1 = f1 * prime if dim == 1 else f1
                b2 = f2 * prime if dim == 2 else f2
            prime += 1
    if at >= 0:
        # The recursion may have taken the slot found above: look again before writing.
        at = _slot(memo.keys, key)
        if at >= 0:
            memo.keys[at] = key
            memo.utils[at] = best
            memo.factors[at, 0], memo.factors[at, 1], memo.factors[at, 2] = b0, b1, b2
    return best, b0, b1, b2
