"""Wheels work as the checkout does: built, installed elsewhere, used from any folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = (".", *(str(p.parent.relative_to(ROOT)) for p in sorted((ROOT / "plugins").glob("*/pyproject.toml"))))


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("site")
    wheels = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip"]
    sources = [str(ROOT / p) for p in PARTS]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(wheels), *sources], check=True)
    built = sorted(map(str, wheels.glob("*.whl")))
    assert len(built) == len(PARTS)
    subprocess.run([*pip, "install", "-q", "--no-deps", "--target", str(target), *built], check=True)
    return target


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "cimopt.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_search_from_wheels_alone(installed, tmp_path):
    where = subprocess.run(
        [sys.executable, "-c", "import cimopt, cimopt_tiled, cimopt.conf; print(cimopt.__file__, cimopt_tiled.__file__, cimopt.conf.__path__)"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(ROOT) not in where.stdout, "the test must use the wheels, not the checkout"
    done = run(
        installed,
        tmp_path,
        "search",
        "space=rram_small",
        "workload=cnn4_published",
        "tracking=none",
        "sampler.stop_after=0",
        "hydra.run.dir=a",
    )
    assert done.returncode in (0, 3), done.stderr
    assert (tmp_path / "a" / "result.json").exists()
    listed = run(installed, tmp_path, "plugins")
    assert "tiled_published" in listed.stdout
    assert "peak" in listed.stdout
    assert run(installed, tmp_path, "search", "--cfg", "job", "evaluator=peak").returncode == 0
    begun = run(installed, tmp_path, "plugin", "new", "mine")
    assert begun.returncode == 0, begun.stderr
    assert (tmp_path / "cimopt-mine" / "cimopt_mine" / "evaluator.py").exists()
