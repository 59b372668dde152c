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


# The dimensions that compete for a level, in order of priority; -1 fills the place of an absent one.
_IN_ROWS = np.array([[C, R, S]])
_IN_COLS = np.array([[Y, M, -1]])
_ABOVE = np.array([[Y, -1, -1], [R, S, -1], [M, C, -1], [G, -1, -1], [P, Q, -1], [N, -1, -1]])


@njit(cache=True)
def _fill(left, factor, together, room, credit_exact, memo):
    """Fill one level with ``room`` places from each row of ``together`` in turn.

    ``left`` ``(9,)`` is reduced (rounding up) and ``factor`` ``(9,)`` set in place; what one row takes
    is gone for the next.
    """
    for row in range(together.shape[0]):
        d0, d1, d2 = together[row, 0], together[row, 1], together[row, 2]
        v1 = left[d1] if d1 >= 0 else np.int64(1)
        v2 = left[d2] if d2 >= 0 else np.int64(1)
        _, f0, f1, f2 = best_factors(left[d0], v1, v2, room, credit_exact, memo)
        factor[d0] = f0
        left[d0] = (left[d0] + f0 - 1) // f0
        if d1 >= 0:
            factor[d1] = f1
            left[d1] = (left[d1] + f1 - 1) // f1
        if d2 >= 0:
            factor[d2] = f2
            left[d2] = (left[d2] + f2 - 1) // f2
        room //= f0 * f1 * f2


@njit(cache=True)
def map_layer(dims, capacity, hold_q, credit_exact, memo, factor, left):
    """Spread a layer over the five levels.

    Args:
        dims: int64 ``(9,)``, the counts in the module's order.
        capacity: int64 ``(5,)``, places at each level.
        hold_q: keep output width out of space (the SRAM dataflow keeps it as a loop over time).
        credit_exact: see :func:`cimopt_tiled.search.best_factors`.
        memo: :class:`cimopt_tiled.search.Memo`.
        factor: int64 ``(5, 9)``, filled with the factor of each dimension at each level.
        left: int64 ``(6, 9)``, filled with the counts before level 0, 1, ... and after the last.
    """
    for d in range(N_DIMS):
        left[0, d] = dims[d]
    if hold_q:
        left[0, Q] = 1
    for level in range(N_LEVELS):
        for d in range(N_DIMS):
            factor[level, d] = 1
            left[level + 1, d] = left[level, d]
        together = _IN_ROWS if level == ROWS else (_IN_COLS if level == COLS else _ABOVE)
        _fill(left[level + 1], factor[level], together, capacity[level], credit_exact, memo)
    if hold_q:
        for level in range(N_LEVELS + 1):
            left[level, Q] = dims[Q]
