"""The experiment beside this plug-in still says what its committed result says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENT = Path(__file__).resolve().parents[3] / "experiments" / "silicon_validation"


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> list[str]:
    """Lines of a fresh run's result."""
    if not EXPERIMENT.is_dir():
        pytest.skip("not a checkout of the whole repository")
    folder = tmp_path_factory.mktemp("silicon")
    subprocess.run([sys.executable, EXPERIMENT / "run.py", "--out", folder], check=True, capture_output=True)
    return (folder / "RESULT.md").read_text(encoding="utf-8").splitlines()


def test_the_silicon_table_is_up_to_date(lines):
    stored = (EXPERIMENT / "RESULT.md").read_text(encoding="utf-8").splitlines()
    known = [line for line in lines if line.startswith("|")]
    assert len(known) > 20
    assert [line for line in stored if line.startswith("|")][: len(known)] == known


def test_the_threshold_is_the_fitted_one(lines):
    assert any("Fit of v_threshold" in line and "0.33 V" in line for line in lines)
