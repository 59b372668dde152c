"""Fronts, crowding and hypervolume against their definitions and pymoo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cimopt.scores.pareto import crowding, front_ranks, hypervolume, merge_front, non_dominated

POINTS = st.integers(1, 3).flatmap(
    lambda m: arrays(float, st.tuples(st.integers(1, 25), st.just(m)), elements=st.integers(0, 6))
)


def dominated(points, i):
    return any((p <= points[i]).all() and (p < points[i]).any() for p in points)


@given(POINTS)
def test_non_dominated_is_its_definition(points):
    assert sorted(non_dominated(points).tolist()) == [i for i in range(len(points)) if not dominated(points, i)]


@given(POINTS, POINTS)
def test_merging_fronts_equals_the_front_of_everything(a, b):
    if a.shape[1] != b.shape[1]:
        return
    mine = a[non_dominated(a)]
    kept, new = merge_front(mine, b)
    joint = np.concatenate([mine[kept], b[new]])
    everything = np.concatenate([a, b])
    right = everything[non_dominated(everything)]
    assert sorted(map(tuple, joint)) == sorted(map(tuple, right))


def test_merging_large_fronts_screens_correctly(rng):
    points = rng.random((5000, 3)) ** 2
    _, new = merge_front(np.zeros((0, 3)), points)
    assert sorted(new.tolist()) == sorted(non_dominated(points).tolist())


def test_ranks_match_pymoo(rng):
    sorting = pytest.importorskip("pymoo.util.nds.non_dominated_sorting").NonDominatedSorting
    for m in (2, 3):
        points = rng.integers(0, 20, size=(120, m)).astype(float)
        ranks = front_ranks(points)
        for k, front in enumerate(sorting().do(points)):
            assert sorted(np.flatnonzero(ranks == k).tolist()) == sorted(front.tolist())


def test_crowding_prefers_lonely_points():
    line = np.array([[0.0, 4.0], [1.0, 3.0], [1.1, 2.9], [4.0, 0.0]])
    distance = crowding(line)
    assert np.isinf(distance[[0, 3]]).all()
    assert distance[1] == pytest.approx(1.1 / 4 + 1.1 / 4)
    assert distance[2] == pytest.approx(3.0 / 4 + 3.0 / 4)
    assert np.isinf(crowding(np.ones((1, 2)))).all()


@settings(deadline=None)
@given(POINTS)
def test_hypervolume_matches_pymoo(points):
    indicator = pytest.importorskip("pymoo.indicators.hv").HV
    reference = np.full(points.shape[1], 5.0)
    if points.shape[1] == 1:
        assert hypervolume(points, reference) == max(0.0, 5.0 - points.min())
        return
    assert hypervolume(points, reference) == pytest.approx(float(indicator(ref_point=reference)(points)))
