"""A stranger's plug-in, installed with pip into a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STRANGER = Path(__file__).with_name("stranger")


def pip_install(target: Path, *sources: Path) -> None:
    """Builds and installs without an index: everything needed to build is in the environment."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(target),
    ]
    subprocess.run([*command, *map(str, sources)], check=True, capture_output=True, text=True)


@pytest.fixture(scope="session")
def stranger_folder(tmp_path_factory) -> Path:
    import shutil

    source = tmp_path_factory.mktemp("elsewhere") / "stranger"
    shutil.copytree(STRANGER, source)
    target = tmp_path_factory.mktemp("installed")
    pip_install(target, source)
    return target


@pytest.fixture
def with_stranger(stranger_folder, monkeypatch) -> Path:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(stranger_folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    )
    return stranger_folder
