"""cost = alpha x area, against published points."""

import csv
import gzip
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from cimopt_techcost import TechCost

from cimopt.errors import InputError
from cimopt.testing import EvaluatorContract
from cimopt.types import Designs, Layer, Parameter, ParameterSet, Workload


class TestTechCost(EvaluatorContract):
    evaluator = TechCost()
    space = "sram_tech"
    workloads = ("alexnet",)
    upstream: ClassVar = {"area_mm2": "n"}


NODES = (7, 10, 14, 22, 32, 45, 65, 90)
WORKLOADS = (Workload("tiny", (Layer("fc", "linear", 4, 4),)),)
# Node (nm), area (mm2), cost (mm2 of 32 nm): one stored design per node of the technology-cost search
# published with arXiv 2603.03880; 7 digits are given, so the product holds to 1e-6.
PUBLISHED = [
    (7, 10.94733, 42.37563),
    (10, 2.37728, 5.332423),
    (14, 25.34026, 37.94863),
    (22, 131.416, 168.5865),
    (32, 38.64396, 38.64396),
    (45, 485.0536, 293.9836),
]
ALL_POINTS = Path(__file__).resolve().parents[3].parent / "shared" / "reference" / "cimloop_points.csv.gz"


def designs(nodes, area):
    parameters = ParameterSet((Parameter("node_nm", NODES),))
    genes = np.array([[NODES.index(node)] for node in nodes])
    return Designs(parameters, genes, {"area_mm2": np.asarray(area, dtype=float)})


def cost(nodes, area, **settings):
    return TechCost(**settings).evaluate(designs(nodes, area), WORKLOADS)


def test_published_points():
    node, area, expected = zip(*PUBLISHED, strict=True)
    metrics = cost(node, area)
    assert metrics.ok.all()
    np.testing.assert_allclose(metrics.values["cost"], expected, rtol=1e-6)


@pytest.mark.skipif(not ALL_POINTS.exists(), reason="the table of all published points is not at hand")
def test_every_published_point():
    with gzip.open(ALL_POINTS, "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["cost_norm"]]
    assert len(rows) > 3000
    node = [int(row["technology_nm"]) for row in rows]
    metrics = cost(node, [float(row["area_mm2"]) for row in rows])
    np.testing.assert_allclose(metrics.values["cost"], [float(row["cost_norm"]) for row in rows], rtol=2e-6)


def test_a_smaller_node_costs_more_per_mm2():
    known = NODES[:6]
    assert (np.diff(cost(known, np.ones(6)).values["cost"]) < 0).all()


@pytest.mark.parametrize("node", [65, 90])
def test_nodes_without_a_value_say_so(node):
    with pytest.raises(InputError, match=f"node_nm={node}.*not recovered.*known nodes: 7, 10, 14, 22, 32, 45 nm"):
        cost([32, node], [1.0, 1.0])


@pytest.mark.parametrize("key", [65, "65"])
def test_values_of_ones_own(key):
    assert cost([65, 7], [10.0, 1.0], alpha={key: 0.4}).values["cost"] == pytest.approx([4.0, 3.870865385])
    assert TechCost(alpha={key: 0.4}).cache_key() != TechCost().cache_key()


@pytest.mark.parametrize("alpha", [{65: -1}, {65: "cheap"}, {"old": 1}, {65: float("nan")}, {0: 1}, {65: None}])
def test_wrong_values_of_ones_own(alpha):
    with pytest.raises(InputError, match=r"evaluator\.techcost\.alpha"):
        TechCost.from_config({"alpha": alpha})


def test_unknown_setting_is_refused():
    with pytest.raises(InputError, match="'alhpa'; did you mean 'alpha'"):
        TechCost.from_config({"alhpa": {}})


def test_a_design_without_area_has_a_reason_and_no_cost():
    metrics = cost([7, 32], [np.nan, 2.0])
    assert metrics.ok.tolist() == [False, True]
    assert "area" in metrics.reasons[metrics.reason[0]]
    assert metrics.values["cost"][1] == 2.0


def test_area_per_workload_gives_cost_per_workload():
    metrics = cost([7, 32], [[1.0], [2.0]])
    assert metrics.values["cost"] == pytest.approx(np.array([[3.870865385], [2.0]]))
