"""Quoted published numbers (tests/golden/SOURCES.md)."""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_tiled.evaluator import TiledEvaluator

from cimopt.workloads.published import load_published

# Name in the quoted file -> component of the evaluator.
COMPONENTS = {
    "cell_mj": "cells",
    "row_mj": "row_drivers",
    "adc_mj": "adc",
    "weight_driver_mj": "weight_drivers",
    "input_buffer_mj": "input_buffers",
    "output_buffer_mj": "output_buffers",
    "router_mj": "router",
    "glb_mj": "glb",
    "dram_mj": "dram",
}


def test_published_points(designs, golden):
    for row in golden("published_points.csv"):
        metrics = TiledEvaluator().evaluate(designs([row]), [load_published(row["workload"])])
        assert metrics.values["cycles"].item() == pytest.approx(row["cycles"], rel=6e-6)
        assert metrics.values["latency_s"].item() == pytest.approx(row["cycles"] * row["t_cycle_ns"] * 1e-9, rel=6e-6)
        assert metrics.values["area_mm2"].item() == pytest.approx(row["area_mm2"], rel=1e-5)
        assert metrics.values["energy_j"].item() == pytest.approx(row["energy_mj"] * 1e-3, rel=1e-2)
        assert metrics.outcome(0).state == "ok"


def test_median_energy_of_published_points_is_within_a_thousandth(designs, golden):
    off = []
    for row in golden("published_points.csv"):
        metrics = TiledEvaluator().evaluate(designs([row]), [load_published(row["workload"])])
        off.append(abs(metrics.values["energy_j"].item() / (row["energy_mj"] * 1e-3) - 1))
    assert np.median(off) < 1e-3


def test_action_counts(golden, count_mismatches):
    assert [bad for row in golden("action_counts.csv") for bad in count_mismatches(row)] == []


def test_energy_breakdown(designs, golden):
    for row in golden("energy_breakdown.csv"):
        # The quoted numbers come from counts rounded as floats (a few accesses off), hence 1e-4.
        # The quoted 22 nm row was computed with the library's router.
        model = TiledEvaluator(quirks={"router_energy_fitted_22nm": row["node_nm"] != 22})
        metrics = model.evaluate(designs([row | {"t_cycle_ns": 1}]), [load_published(row["workload"])], "components")
        for quoted, name in COMPONENTS.items():
            assert metrics.values[f"energy_j.{name}"].item() * 1e3 == pytest.approx(row[quoted], rel=1e-4), name
        assert metrics.values["energy_j"].item() * 1e3 == pytest.approx(row["total_mj"], rel=1e-4)
