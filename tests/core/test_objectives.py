"""Scores in the papers' units, aggregation, limits and their signs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cimopt.errors import InputError
from cimopt.scores.objectives import Bound, check_available, from_config
from cimopt.types import Metrics

EDAP = {"name": "edap", "product": {"energy_j": 1, "latency_s": 1, "area_mm2": 1}}


def metrics(energy, latency, area, reason=None):
    n = len(area)
    return Metrics(
        {"energy_j": np.array(energy, float), "latency_s": np.array(latency, float), "area_mm2": np.array(area, float)},
        tuple(f"w{i}" for i in range(np.shape(energy)[1])),
        np.zeros(n, np.int16) if reason is None else np.array(reason, np.int16),
        ("ok", "does not fit"),
    )


def test_edap_is_in_mj_ms_mm2():
    """Published point (JOINT_SEARCH section 5): RRAM Mean design, ResNet18 0.02040 mJ.ms.mm2."""
    found = from_config({**EDAP, "aggregate": "max"}).score(metrics([[2e-3, 1e-3]], [[3e-9, 5e-9]], [500.0]))
    assert found.values[0, 0] == pytest.approx(2.0 * 5e-6 * 500.0)
    assert from_config(EDAP).unit(2) == "mJ.ms.mm2"


def test_aggregates():
    m = metrics([[1e-3, 3e-3]], [[2e-3, 4e-3]], [10.0])
    assert from_config({**EDAP, "aggregate": "max"}).score(m).values[0, 0] == pytest.approx(3 * 4 * 10)
    assert from_config({**EDAP, "aggregate": "mean"}).score(m).values[0, 0] == pytest.approx(2 * 3 * 10)
    everything = from_config({**EDAP, "aggregate": "all"})
    assert everything.score(m).values[0, 0] == pytest.approx(3 * 8 * 10)
    assert everything.unit(2) == "mJ^2.ms^2.mm2"


def test_accuracy_divides_by_the_product_over_workloads():
    m = Metrics({"energy_j": np.array([[1e-3, 2e-3]]), "accuracy": np.array([[0.5, 0.8]])}, ("a", "b"))
    objective = from_config(
        {"name": "x", "product": {"energy_j": 1, "accuracy": -1}, "aggregate_by": {"accuracy": "all"}}
    )
    assert objective.score(m).values[0, 0] == pytest.approx(2 / 0.4)


@pytest.mark.parametrize(("area", "feasible"), [(99.0, True), (100.0, True), (100.0001, False)])
def test_limit_signs_and_equality(area, feasible):
    """Case O6: the config says a maximum; g = 0 is feasible."""
    scores = from_config({**EDAP, "area_max_mm2": 100}).score(metrics([[1.0]], [[1.0]], [area]))
    assert scores.feasible[0] == feasible
    assert scores.violations["area_mm2"][0] == pytest.approx(area / 100 - 1)


def test_minimum_limits_and_limits_of_zero_or_less():
    assert Bound("accuracy", min=0.9).amount(np.array([[0.95, 0.8]]))[0] == pytest.approx(0.1 / 0.9)
    assert Bound("x", max=0.0).amount(np.array([0.5]))[0] == pytest.approx(0.5)
    assert Bound("x", max=-1.0).amount(np.array([3.0]))[0] == pytest.approx(4.0), (
        "a negative limit keeps its sign (case O5)"
    )


def test_failure_is_never_a_number():
    """Cases O7, O9: a design without metrics has no value and is not feasible; a true zero stays."""
    m = metrics([[np.nan], [0.0]], [[np.nan], [1.0]], [np.nan, 1.0], reason=[1, 0])
    scores = from_config({**EDAP, "area_max_mm2": 800}).score(m)
    assert np.isinf(scores.values[0, 0])
    assert scores.errors.tolist() == [True, False]
    assert scores.feasible.tolist() == [False, True]
    assert scores.values[1, 0] == 0.0


def test_known_amounts_make_a_design_infeasible_not_an_error():
    m = Metrics(
        {"energy_j": np.array([[np.nan]])},
        ("a",),
        np.array([1], np.int16),
        ("ok", "too big"),
        {"cells": np.array([0.5])},
    )
    scores = from_config({"name": "e", "product": {"energy_j": 1}}).score(m)
    assert not scores.errors[0]
    assert scores.total_violation[0] == 0.5
    assert not scores.feasible[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agregate": "max"}, "did you mean 'aggregate'"),
        ({"aggregate": "maximum"}, "unknown objective.aggregate 'maximum'"),
        ({"product": {}}, "names no metric"),
        ({"area_max_mm2": "big"}, "objective.area_max_mm2='big' must be a finite number"),
        ({"area_max_mm2": float("nan")}, "must be a finite number"),
        ({"limits": {"energy_j": {"max": 1, "min": 0}}}, "needs exactly one of max, min"),
        ({"area_max_mm2": 1, "limits": {"area_mm2": {"max": 2}}}, "repeats"),
    ],
)
def test_wrong_objectives_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        from_config({**EDAP, **change})


def test_a_missing_metric_is_named():
    with pytest.raises(InputError, match="needs the metric 'latency_s'"):
        check_available(from_config(EDAP), ["energy_j", "area_mm2"])


@given(st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=5), st.floats(1e-3, 1e3))
def test_doubling_one_factor_doubles_the_score(energies, area):
    objective = from_config(EDAP)
    e = np.array([energies])
    one = objective.score(metrics(e, np.ones_like(e), [area])).values[0, 0]
    two = objective.score(metrics(2 * e, np.ones_like(e), [area])).values[0, 0]
    assert two == pytest.approx(2 * one)
    assert objective.of_workload(metrics(e, np.ones_like(e), [area]), 0)[0] <= one * (1 + 1e-12)
