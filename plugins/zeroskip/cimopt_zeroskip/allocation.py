"""How many copies every unit (a layer or a block) gets.

`allocate` is the paper's greedy loop (section III-B): the unit with the highest expected latency,
work / copies, gets another copy until that one does not fit.

The greedy is optimal for what it looks at. When it stops at bottleneck L = max work / copies, every copy beyond
the first was given to a unit whose estimate was the highest, hence at least L; so each unit holds the fewest
copies that bring it to L or below, and a bottleneck under L needs at least one more copy of a unit that does
not fit. What it does not see is the queue: `allocate_exact` minimises the simulated cycles themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cimopt.errors import InputError
from cimopt_zeroskip.bits import _forms

BISECTIONS = 60
ROUNDING = 1e-9


def allocate(work: Sequence[float], sizes: Sequence[int], n_arrays: int, *, compiled: bool = True) -> np.ndarray:
    """Copies of each unit, int64 ``(units,)``, by the paper's greedy.

    Args:
        work: ``(units,)``, expected cycles with one copy (or any multiple of it).
        sizes: ``(units,)``, arrays of one copy.
        n_arrays: arrays on the chip.
        compiled: numba heap (True) or plain scan, equal results.

    Raises:
        InputError: one copy of each unit does not fit (the text says how many arrays are missing).

    Ties go to the first unit. Arrays left when the slowest unit no longer fits stay unused. The first part
    is found by bisection on the bottleneck, so the loop only gives the last copies.
    """
    load, size = np.asarray(work, dtype=np.float64), np.asarray(sizes, dtype=np.int64)
    _check(load, size, n_arrays)
    copies = _head_start(load, size, n_arrays)
    left = int(n_arrays - (copies * size).sum())
    _forms(compiled).greedy(load, size, copies, left)
    return copies


def _check(work: np.ndarray, sizes: np.ndarray, n_arrays: int) -> None:
    if work.ndim != 1 or work.shape != sizes.shape:
        raise InputError(f"work and sizes must be lists of equal length, got shapes {work.shape} and {sizes.shape}")
    if not np.isfinite(work).all() or (work < 0).any():
        raise InputError("work must be finite and >= 0")
    if (sizes < 1).any():
        raise InputError("sizes must be whole numbers >= 1")
    if sizes.sum() > n_arrays:
        raise InputError(f"one copy of everything takes {sizes.sum()} arrays, the chip has {n_arrays}")


def _head_start(work: np.ndarray, sizes: np.ndarray, n_arrays: int) -> np.ndarray:
    """A state the greedy passes through: fewest copies with work / copies <= L, for the smallest L that fits."""
    low, high = 0.0, float(work.max(initial=0.0))
    best = np.ones(len(work), dtype=np.int64)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        needed = _copies_to_reach(work, middle)
        if (needed * sizes.astype(np.float64)).sum() <= n_arrays:
            best, high = needed.astype(np.int64), middle
        else:
            low = middle
        if high - low < 1e-6 * high:
            break
    return best


def _copies_to_reach(work: np.ndarray, bottleneck: float) -> np.ndarray:
    """Fewest copies with work / copies <= bottleneck in floating point, float64 ``(units,)``."""
    copies = np.maximum(np.ceil(work / bottleneck), 1.0)
    copies = np.where((copies > 1) & (work / np.maximum(copies - 1, 1) <= bottleneck), copies - 1, copies)
    return np.where(work / copies > bottleneck, copies + 1, copies)


def allocate_exact(
    fewest: Callable[[int, np.ndarray, np.ndarray], np.ndarray],
    cycles: Callable[[np.ndarray], np.ndarray],
    work: Sequence[float],
    sizes: Sequence[int],
    n_arrays: int,
) -> np.ndarray:
    """Copies that minimise the largest cycles of any unit, provably; int64 ``(units,)``.

    Cycles of a unit never grow with its copies (independent jobs in a fixed order), so a bottleneck L is
    reachable exactly when the fewest copies per unit that stay within L fit together. The smallest such
    whole number L is found by bisection, from above by the greedy's cycles.

    Args:
        fewest: ``(L, low, high)`` -> fewest copies per unit with cycles <= L, 0 where none does; the numbers are
            known to be at least ``low`` and at most ``high`` (0: not known).
        cycles: copies ``(units,)`` -> cycles ``(units,)``.
        work, sizes, n_arrays: as for `allocate`.
    """
    size = np.asarray(sizes, dtype=np.int64)
    best = allocate(work, size, n_arrays)
    greedy, ends = best, cycles(best)
    high = int(np.ceil(ends.max()))
    # For any bottleneck still open a unit needs at least `least` and at most `most` copies.
    least, most = np.ones(len(size), dtype=np.int64), np.zeros(len(size), dtype=np.int64)
    low = _open_bound(np.asarray(work, dtype=np.float64), size, n_arrays, high)
    while high - low > 1:
        middle = (low + high) // 2
        # The greedy's own run already tells for every unit whether its copies suffice.
        enough = ends <= middle
        at_least = np.where(enough, least, np.maximum(least, greedy + 1))
        at_most = np.where(enough & ((most == 0) | (greedy < most)), greedy, most)
        needed = fewest(middle, at_least, at_most)
        if needed.min() > 0 and int((needed * size).sum()) <= n_arrays:
            best, high, least = needed, middle, needed
        else:
            low, most = middle, needed
    return best


def _open_bound(work: np.ndarray, sizes: np.ndarray, n_arrays: int, high: int) -> int:
    """A whole number of cycles that no allocation reaches: below the bottleneck of a chip without queues."""
    bottleneck = float((work / allocate(work, sizes, n_arrays)).max())
    return max(0, min(int(np.ceil(bottleneck * (1 - ROUNDING))) - 1, high - 1))
