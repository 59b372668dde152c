"""Same seed, same designs as before the stores and samplers got one interface, for every sampler and store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.golden.studies import FILE, STUDIES, run

BEFORE = Path(__file__).with_name("before_rooms")
GOLDEN = json.loads(FILE.read_text())


def _check(found: dict, wanted: dict) -> None:
    assert found | {"best": None} == wanted | {"best": None}
    assert found["best"] == pytest.approx(wanted["best"], rel=1e-9)


@pytest.mark.parametrize("name", STUDIES)
def test_same_seed_same_designs(name, tmp_path):
    if name.startswith("pymoo"):
        pytest.importorskip("pymoo")
    if name == "cmaes":
        pytest.importorskip("cmaes")
    _check(run(name, tmp_path / name), GOLDEN[name])


@pytest.mark.parametrize(("store", "name"), [("full", "four_phase"), ("generation", "four_phase_generation")])
def test_a_run_folder_begun_before_goes_on_to_the_same_end(store, name, tmp_path):
    """The folders hold 80 of 280 designs, written by the version before (`sampler.stop_after=1`)."""
    shutil.copytree(BEFORE / store, tmp_path / store)
    _check(run(name, tmp_path / store), GOLDEN[name])
