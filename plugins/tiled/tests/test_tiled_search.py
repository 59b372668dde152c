"""The mapping: against a plain reading of the rule, and its conservation laws."""

from __future__ import annotations

import math

import numpy as np
from cimopt_tiled.mapping import COLS, N_DIMS, N_LEVELS, ROWS, C, M, P, Q, R, S, Y, map_layer
from cimopt_tiled.search import best_factors, new_memo
from hypothesis import given, settings
from hypothesis import strategies as st

COUNT = st.integers(1, 600)
# One memo for all examples: a wrong hit of an earlier entry would show.
MEMO = new_memo(12)


def primes(value: int) -> list[int]:
    return [p for p in range(2, value + 1) if value % p == 0 and all(p % d for d in range(2, p))]


def plain(values: tuple[int, ...], capacity: int, credit_exact: bool) -> tuple[float, tuple[int, ...]]:
    """The rule as written down, without a memo: returns utilisation and factors."""
    best, taken = 1.0, (1,) * len(values)
    for i, value in enumerate(values):
        if value > capacity:
            parts = math.ceil(value / capacity)
            part = math.ceil(value / parts)
            rest = value % part or (part if credit_exact else 0)
            util = (part * (parts - 1) + rest) / parts
            if util > best:
                best, taken = util, tuple(part if k == i else 1 for k in range(len(values)))
        for prime in primes(value):
            if prime > capacity:
                break
            rest_values = tuple(v // prime if k == i else v for k, v in enumerate(values))
            util, factors = plain(rest_values, capacity // prime, credit_exact)
            if prime * util > best:
                best, taken = prime * util, tuple(f * prime if k == i else f for k, f in enumerate(factors))
    return best, taken


@settings(max_examples=150, deadline=None)
@given(COUNT, COUNT, st.integers(1, 40), st.integers(1, 32), st.booleans())
def test_search_is_the_rule(v0, v1, v2, capacity, credit_exact):
    memo = MEMO if credit_exact else new_memo(8)
    got = best_factors(v0, v1, v2, capacity, credit_exact, memo)
    util, factors = plain((v0, v1, v2), capacity, credit_exact)
    assert (got[0], got[1:]) == (util, factors)


@settings(max_examples=100, deadline=None)
@given(COUNT, COUNT, st.integers(2, 512))
def test_counts_beyond_the_memo_are_searched_without_it(v0, v1, capacity):
    huge = 1 << 17
    memo = new_memo(8)
    best_factors(v0, huge, 1, 2, False, memo)
    assert best_factors(v0, v1, 1, capacity, False, memo) == best_factors(v0, v1, 1, capacity, False, new_memo(14))


def test_exact_split_quirk_changes_the_choice():
    """2 x 74 of 148 fit 77 places, yet the published rule ends at 76, which has the same utilisation."""
    quirk = best_factors(148, 195, 1, 77, False, new_memo())
    credited = best_factors(148, 195, 1, 77, True, new_memo())
    assert quirk[0] == credited[0] == 74
    assert (quirk[1], credited[1]) == (76, 74)


DIMS = st.tuples(
    *[st.integers(1, 64)] * 2,
    *[st.integers(1, 7)] * 2,
    *[st.integers(1, 56)] * 2,
    st.integers(1, 32),
    *[st.integers(1, 4)] * 2,
)
CAPACITY = st.tuples(*[st.sampled_from((16, 32, 64, 128, 256, 512))] * 2, *[st.integers(1, 64)] * 3)


@settings(max_examples=150, deadline=None)
@given(DIMS, CAPACITY, st.booleans())
def test_mapping_covers_the_layer_within_the_places(dims, capacity, hold_q):
    factor, left = np.empty((N_LEVELS, N_DIMS), np.int64), np.empty((N_LEVELS + 1, N_DIMS), np.int64)
    map_layer(np.array(dims), np.array(capacity), hold_q, False, MEMO_MAPPING, factor, left)
    assert (factor >= 1).all()
    assert (factor.prod(axis=1) <= capacity).all()
    assert set(np.flatnonzero(factor[ROWS] > 1)) <= {C, R, S}
    assert set(np.flatnonzero(factor[COLS] > 1)) <= {Y, M}
    spatial = [d for d in range(N_DIMS) if not (hold_q and d == Q)]
    for level in range(N_LEVELS):
        assert (left[level + 1, spatial] == -(-left[level, spatial] // factor[level, spatial])).all()
    reached = factor.prod(axis=0) * left[-1]
    assert (reached >= dims).all()
    if hold_q:
        assert (factor[:, Q] == 1).all()
        assert (left[:, Q] == dims[Q]).all()


MEMO_MAPPING = new_memo(14)


def test_idle_arrays_replicate_weights_over_outputs():
    """3x3x16 -> 16 channels on 512 x 128 with 64 macros: one array holds all, the rest takes outputs."""
    factor, left = np.empty((N_LEVELS, N_DIMS), np.int64), np.empty((N_LEVELS + 1, N_DIMS), np.int64)
    dims = np.array([16, 16, 3, 3, 8, 8, 1, 1, 8])
    map_layer(dims, np.array([512, 128, 64, 1, 1]), False, False, new_memo(), factor, left)
    assert factor[ROWS, [C, R, S]].tolist() == [16, 3, 3]
    assert factor[COLS, [Y, M]].tolist() == [8, 16]
    assert factor[2, [P, Q]].tolist() == [8, 8]
    assert left[-1].prod() == 1
