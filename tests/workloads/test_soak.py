"""The short form of scripts/soak_importers.py: damaged files give clear errors, in time and in bounded memory."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "soak_importers.py"


def test_damaged_files_give_nothing_but_clear_errors():
    pytest.importorskip("onnx")
    command = [sys.executable, str(SCRIPT), "--minutes", "0.15", "--seed", "2026"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0].replace(",", "")) > 500, done.stdout


def test_the_soak_run_does_see_faults(tmp_path):
    """A sample that no importer may survive: the run must end with 1 and say so."""
    breaking = (
        "import sys; sys.path.insert(0, sys.argv[1]); import soak_importers as s\n"
        "def fault(path, options): raise KeyError('planted')\n"
        "s.read_any = fault\n"
        "cases, found = s.soak(5, 1)\n"
        "sys.exit(0 if 'ended with 3' in found else 1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", breaking, str(SCRIPT.parent)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "planted" in done.stderr
