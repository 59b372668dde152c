"""How one layer is spread over one chip structure (IMC model note, 2.2).

Dimensions are held in one order everywhere: ``C, M, R, S, P, Q, G, N, Y`` (input and output channels of
one group, kernel height and width, output height and width, groups, batch, weight slices). Levels run
from the inside out: rows and columns of an array, macros in a tile, tiles on a router, router groups.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cimopt_tiled.search import best_factors

C, M, R, S, P, Q, G, N, Y = range(9)
N_DIMS = 9
ROWS, COLS, MACROS, TILES, GROUPS = range(5)
N_LEVELS = 5


@njit(cache=True)
def _take(left, factor, level, dim, count):
    """Record ``count`` of ``dim`` at ``level`` and reduce what is left, rounding up."""
    factor[level, dim] = count
    left[dim] = (left[dim] + count - 1) // count


@njit(cache=True)
def _fill(left, factor, level, d0, d1, d2, capacity, credit_exact, keys, utils, factors):
    """Fill ``level`` from one group of dimensions (-1: none) and return the capacity that is left."""
    v1 = left[d1] if d1 >= 0 else np.int64(1)
    v2 = left[d2] if d2 >= 0 else np.int64(1)
    _, f0, f1, f2 = best_factors(left[d0], v1, v2, capacity, credit_exact, keys, utils, factors)
    _take(left, factor, level, d0, f0)
    if d1 >= 0:
        _take(left, factor, level, d1, f1)
    if d2 >= 0:
        _take(left, factor, level, d2, f2)
    return capacity // (f0 * f1 * f2)


@njit(cache=True)
def map_layer(dims, capacity, hold_q, credit_exact, factor, left, keys, utils, factors):
    """Spread a layer over the five levels.

    Args:
        dims: int64 ``(9,)``, the counts in the module's order.
        capacity: int64 ``(5,)``, places at each level.
        hold_q: keep output width out of space (the SRAM dataflow keeps it as a loop over time).
        credit_exact: see :func:`cimopt_tiled.search.best_factors`.
        factor: int64 ``(5, 9)``, filled with the factor of each dimension at each level.
        left: int64 ``(6, 9)``, filled with the counts before level 0, 1, ... and after the last.
        keys, utils, factors: the memo of :func:`cimopt_tiled.search.new_memo`.
    """
    factor[:, :] = 1
    left[0, :] = dims
    if hold_q:
        left[0, Q] = 1
    for level in range(N_LEVELS):
        now = left[level + 1]
        now[:] = left[level]
        room = capacity[level]
        if level == ROWS:
            _fill(now, factor, level, C, R, S, room, credit_exact, keys, utils, factors)
        elif level == COLS:
            _fill(now, factor, level, Y, M, -1, room, credit_exact, keys, utils, factors)
        else:
            room = _fill(now, factor, level, Y, -1, -1, room, credit_exact, keys, utils, factors)
            room = _fill(now, factor, level, R, S, -1, room, credit_exact, keys, utils, factors)
            room = _fill(now, factor, level, M, C, -1, room, credit_exact, keys, utils, factors)
            room = _fill(now, factor, level, G, -1, -1, room, credit_exact, keys, utils, factors)
            room = _fill(now, factor, level, P, Q, -1, room, credit_exact, keys, utils, factors)
            _fill(now, factor, level, N, -1, -1, room, credit_exact, keys, utils, factors)
    if hold_q:
        left[:, Q] = dims[Q]
