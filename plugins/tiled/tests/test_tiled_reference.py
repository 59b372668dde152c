"""All published points, where the reference folder lies beside the checkout."""

from __future__ import annotations

import gzip
import itertools

import numpy as np
import pytest
from cimopt_tiled.evaluator import TiledEvaluator

from cimopt.workloads.published import load_published

RENAMED = {"v_op_V": "v_op", "glb_MB": "glb_mb", "technology_nm": "node_nm"}
CNN4 = ("alexnet", "vgg16", "resnet18", "mobilenet_v3")


@pytest.fixture(scope="module")
def points(reference, designs):
    """Published numbers and ours: arrays of equal length."""
    pandas = pytest.importorskip("pandas")
    with gzip.open(reference / "cimloop_points.csv.gz", "rt") as file:
        table = pandas.read_csv(file).rename(columns=RENAMED)
    table["memory"] = table["memory"].str.lower()
    model = TiledEvaluator()
    parts = []
    for (workload, _), group in table.groupby(["workload", "memory"]):
        metrics = model.evaluate(designs(group.to_dict("records")), [load_published(workload)])
        group = group.assign(
            our_energy=metrics.values["energy_j"][:, 0] * 1e3,
            our_cycles=metrics.values["cycles"][:, 0],
            our_area=metrics.values["area_mm2"],
            feasible=metrics.ok & (metrics.total_violation == 0),
        )
        parts.append(group)
    whole = pandas.concat(parts)
    assert len(whole) == len(table) == 21_575
    return whole


def test_cycles_of_every_point(points):
    assert (abs(points["our_cycles"] / points["cycles"] - 1) < 6e-6).all()


def test_area_of_every_point(points):
    assert (abs(points["our_area"] / points["area_mm2"] - 1) < 1e-4).all()


def test_every_published_point_is_feasible(points):
    assert points["feasible"].all()


def test_rram_energy(points):
    off = abs(points["our_energy"] / points["energy_mJ"] - 1)[points["memory"] == "rram"]
    assert off.median() < 1e-3
    assert off.max() < 1e-2


def test_sram_energy(points):
    picked = (points["memory"] == "sram") & (points["node_nm"] == 32) & points["workload"].isin(CNN4)
    off = abs(points["our_energy"] / points["energy_mJ"] - 1)[picked]
    assert off.median() < 1e-3
    assert (off < 1e-2).mean() >= 0.97


def test_sram_energy_of_chips_with_many_cells(points):
    """At least 99.5 % of the points with 2**18 cells or more lie within 1 %, all within 3 %."""
    cells = points[["xbar_rows", "xbar_cols", "macros_per_tile", "tiles_per_router", "router_groups"]].prod(axis=1)
    picked = (points["memory"] == "sram") & (points["node_nm"] == 32) & points["workload"].isin(CNN4) & (cells >= 2**18)
    off = abs(points["our_energy"] / points["energy_mJ"] - 1)[picked]
    assert (off < 1e-2).mean() >= 0.995
    assert off.max() < 0.035


def test_sram_energy_at_other_nodes(points):
    off = abs(points["our_energy"] / points["energy_mJ"] - 1)
    for node in (7, 10, 14, 22, 45):
        assert off[points["node_nm"] == node].median() < 1e-3, node


def test_ranking_by_edap(points):
    """Best ten area-feasible designs for the four CNNs: the published order."""
    keys = ["v_op", "bits_per_cell", "t_cycle_ns", "xbar_rows", "xbar_cols", "router_groups"]
    keys += ["tiles_per_router", "macros_per_tile", "glb_mb", "node_nm"]
    picked = points[points["workload"].isin(CNN4) & (points["area_mm2"] <= 800)]
    for memory, node in itertools.product(("rram", "sram"), (32,)):
        some = picked[(picked["memory"] == memory) & (picked["node_nm"] == node)]
        joint = some.groupby(keys).agg(
            n=("workload", "nunique"), area=("area_mm2", "max"), e=("energy_mJ", "max"), c=("cycles", "max"),
            oe=("our_energy", "max"), oc=("our_cycles", "max"),
        ).reset_index()  # fmt: skip
        joint = joint[joint["n"] == len(CNN4)]
        published = (joint["e"] * joint["c"] * joint["t_cycle_ns"] * joint["area"]).to_numpy()
        ours = (joint["oe"] * joint["oc"] * joint["t_cycle_ns"] * joint["area"]).to_numpy()
        assert (np.argsort(published)[:10] == np.argsort(ours)[:10]).all()


def test_all_action_counts(reference, rows_of, count_mismatches):
    rows = rows_of(reference / "action_counts.csv")
    assert len(rows) == 400
    assert [bad for row in rows for bad in count_mismatches(row | {"memory": row["memory"].lower()})] == []
