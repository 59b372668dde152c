"""Sixty quoted published points against the tiled model (SOURCES.md: choice, classes, tolerances)."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from cimopt.types import Designs, Parameter, ParameterSet
from cimopt.workloads.published import load_published

tiled = pytest.importorskip("cimopt_tiled.evaluator")

LARGE = 2**18
TEXTS = ("memory", "workload")
RESULTS = ("energy_mj", "cycles", "area_mm2", "workload")


def read() -> list[dict]:
    with (Path(__file__).parent / "published_points.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v if k in TEXTS else float(v) for k, v in row.items()} for row in rows]


def tolerance_class(row: dict) -> str:
    if row["memory"] == "rram":
        return "rram"
    cells = np.prod(
        [row[k] for k in ("xbar_rows", "xbar_cols", "macros_per_tile", "tiles_per_router", "router_groups")]
    )
    return "sram_large" if cells >= LARGE else "sram_small"


@pytest.fixture(scope="module")
def compared() -> list[dict]:
    """Every quoted row with our values, all evaluated one by one."""
    model, rows = tiled.TiledEvaluator(), read()
    for row in rows:
        design = {k: v for k, v in row.items() if k not in RESULTS}
        parameters = ParameterSet(tuple(Parameter(k, (v,)) for k, v in design.items()))
        designs = Designs(parameters, np.zeros((1, len(design)), dtype=int))
        metrics = model.evaluate(designs, [load_published(row["workload"])])
        assert metrics.outcome(0).state == "ok"
        row |= {"kind": tolerance_class(row), "ratio": metrics.values["energy_j"].item() * 1e3 / row["energy_mj"]}
        row |= {"our_cycles": metrics.values["cycles"].item(), "our_area": metrics.values["area_mm2"].item()}
    return rows


def test_the_sample_is_whole(compared):
    assert len(compared) == 60
    assert {row["kind"] for row in compared} == {"rram", "sram_large", "sram_small"}
    assert len({row["workload"] for row in compared}) == 9


def test_cycles(compared):
    for row in compared:
        assert row["our_cycles"] == pytest.approx(row["cycles"], rel=6e-6), row


def test_area(compared):
    for row in compared:
        assert row["our_area"] == pytest.approx(row["area_mm2"], rel=1e-4 if row["node_nm"] == 32 else 1e-2), row


@pytest.mark.parametrize(("kind", "most"), [("rram", 0.01), ("sram_large", 0.03)])
def test_energy(compared, kind, most):
    off = np.array([abs(row["ratio"] - 1) for row in compared if row["kind"] == kind])
    assert len(off) >= 10
    assert off.max() <= most
    assert (off <= 0.01).mean() >= 0.95
    assert np.median(off) < 1e-3


def test_energy_where_the_published_mapper_may_have_missed(compared):
    ratios = np.array([row["ratio"] for row in compared if row["kind"] == "sram_small"])
    assert (ratios <= 1.01).all()
    assert abs(np.median(ratios) - 1) < 1e-2
