"""Shared material: the reference folder (when present), a small model-free evaluator, run helpers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def reference() -> Path:
    """Published data beside the project; tests that need it skip when it is absent."""
    folder = ROOT.parent / "shared" / "reference"
    if not folder.is_dir():
        pytest.skip("the reference folder is not beside the project")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


class Cimopt:
    """Runs the real command in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess:
        environment = {**os.environ, "COLUMNS": "120"}
        command = [sys.executable, "-m", "cimopt.cli", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=timeout
        )

    def result(self, run: str) -> dict:
        return json.loads((self.folder / run / "result.json").read_text())


@pytest.fixture
def cimopt(tmp_path: Path) -> Cimopt:
    return Cimopt(tmp_path)
