"""Allocation: the greedy as the authors run it, its optimality, and the exact one against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cimopt_zeroskip import allocate, simulate
from cimopt_zeroskip.allocation import allocate_exact
from cimopt_zeroskip.bits import _forms
from cimopt_zeroskip.queueing import NO_LIMIT
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt.errors import InputError

units = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 6)), min_size=1, max_size=7)


def test_ties_go_to_the_first_unit():
    """Golden: the authors' micro case."""
    assert allocate([500, 500, 500], [1, 1, 1], 10).tolist() == [4, 3, 3]


def test_stops_when_the_slowest_does_not_fit():
    """Golden: the authors' micro case; other units would fit into the leftovers."""
    copies = allocate([1000 / 2, 4000, 500 / 5], [2, 4, 3], 20)
    assert (copies * [2, 4, 3]).tolist() == [2, 12, 3]


def test_what_does_not_fit_says_how_much_is_missing():
    with pytest.raises(InputError, match="9 arrays, the chip has 8"):
        allocate([1, 1], [4, 5], 8)


@settings(max_examples=150, deadline=None)
@given(units, st.integers(0, 60))
def test_both_forms_agree(given_units, spare):
    work, sizes = (list(v) for v in zip(*given_units, strict=True))
    n = sum(sizes) + spare
    fast, slow = (allocate(work, sizes, n, compiled=c) for c in (True, False))
    scanned = np.ones(len(work), dtype=np.int64)
    _forms(False).greedy(np.array(work, float), np.array(sizes), scanned, spare)
    assert fast.tolist() == slow.tolist() == scanned.tolist()
    assert (fast * sizes).sum() <= n


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 3)), min_size=1, max_size=3), st.integers(0, 9))
def test_the_greedys_bottleneck_is_the_best_there_is(given_units, spare):
    work, sizes = (np.array(v) for v in zip(*given_units, strict=True))
    n = int(sizes.sum()) + spare
    best = min(
        max(w / c for w, c in zip(work, copies, strict=True))
        for copies in itertools.product(range(1, spare + 2), repeat=len(work))
        if np.dot(copies, sizes) <= n
    )
    assert (work / allocate(work, sizes, n)).max() == best


def _exact(jobs: np.ndarray, sizes: np.ndarray, n: int, compiled: bool) -> np.ndarray:
    """The exact allocation of units with queues ``jobs`` (units, patches)."""
    forms, given_jobs = _forms(compiled), jobs[None].astype(np.int32)
    totals = jobs.sum(axis=1).astype(np.int64)
    return allocate_exact(
        lambda limit, low, high: forms.fewest_copies(given_jobs, totals, limit, low, high),
        lambda copies: forms.unit_cycles(given_jobs, copies, NO_LIMIT),
        totals, sizes, n,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 8), st.integers(0, 9))
def test_the_exact_allocation_has_the_smallest_simulated_bottleneck(seed, n_units, patches, spare):
    rng = np.random.default_rng(seed)
    jobs, sizes = rng.integers(1, 60, (n_units, patches)), rng.integers(1, 4, n_units)
    n = int(sizes.sum()) + spare

    def cycles(copies):
        ends = [simulate(q[:, None], [c], dataflow="block").cycles for q, c in zip(jobs, copies, strict=True)]
        return max(ends)

    all_copies = [c for c in itertools.product(range(1, spare + 2), repeat=n_units) if np.dot(c, sizes) <= n]
    best = min(cycles(c) for c in all_copies)
    for compiled in (True, False):
        mine = _exact(jobs, sizes, n, compiled)
        assert np.dot(mine, sizes) <= n
        assert cycles(mine) == best
    assert best <= cycles(allocate(jobs.sum(axis=1), sizes, n))


def test_the_exact_allocation_can_beat_the_greedy():
    """The greedy sees totals only: three operations on two copies leave one copy idle half the time."""
    jobs = np.array([[60, 60, 60, 0], [50, 50, 50, 50]])

    def bottleneck(copies):
        return max(simulate(q[:, None], [c], dataflow="block").cycles for q, c in zip(jobs, copies, strict=True))

    greedy, exact = allocate(jobs.sum(axis=1), [1, 1], 5), _exact(jobs, np.array([1, 1]), 5, True)
    assert (greedy.tolist(), bottleneck(greedy)) == ([2, 3], 120)
    assert (exact.tolist(), bottleneck(exact)) == ([3, 2], 100)


@pytest.mark.parametrize(
    ("work", "sizes", "named"),
    [([1.0], [1, 2], "equal length"), ([float("nan")], [1], "finite"), ([1.0], [0], "sizes")],
)
def test_wrong_input_is_named(work, sizes, named):
    with pytest.raises(InputError, match=named):
        allocate(work, sizes, 10)
