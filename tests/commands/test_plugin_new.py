"""`cimopt plugin new`: what it writes installs, passes its kit and can be searched with."""

import os
import subprocess
import sys

import pytest

from tests.commands.conftest import pip_install


@pytest.fixture
def mine(cimopt, tmp_path, monkeypatch):
    written = cimopt("plugin", "new", "my_chip")
    assert written.returncode == 0, written.stderr
    pip_install(tmp_path / "site", cimopt.folder / "cimopt-my-chip")
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", path)
    return cimopt.folder / "cimopt-my-chip"


def test_it_is_installed_searched_with_and_passes_its_kit(cimopt, mine):
    assert "my_chip" in cimopt("plugins").stdout
    done = cimopt(
        "search", "space=rram_small", "evaluator=my_chip", "objective=latency", "objective.area_max_mm2=null",
        "evaluator.my_chip.weight_bits=4", "tracking=none", "runner=serial", "report.plots=false", "hydra.run.dir=a",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kit = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(mine)],
        cwd=cimopt.folder, capture_output=True, text=True,
    )  # fmt: skip
    assert kit.returncode == 0, kit.stdout
    left = "\n".join(path.read_text() for path in mine.rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert "emplate" not in left.replace("what the template does", "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Mine", "must be small letters"),
        ("2d", "must be small letters"),
        ("foo_", "not ending in _"),
        ("components", "a package cimopt_components is installed already"),
        ("tiled_published", "cimopt-tiled announces an evaluator of that name already"),
    ],
)
def test_names_that_cannot_be_used(cimopt, name, words):
    refused = cimopt("plugin", "new", name)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert not list(cimopt.folder.iterdir())


def test_nothing_is_written_over(cimopt):
    (cimopt.folder / "cimopt-mine").mkdir()
    refused = cimopt("plugin", "new", "mine")
    assert refused.returncode == 2
    assert "exists already" in refused.stderr
