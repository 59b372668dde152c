"""The house stays as drawn: no path of a machine, locks without hosts, one direction of imports, small files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_imports_run_one_way():
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("lock", LOCKS, ids=lambda p: p.name)
def test_locks_have_hashes_and_no_host(lock):
    text = lock.read_text()
    pins = re.findall(r"^[A-Za-z0-9][\w.\-\[\]]*==\S+ \\$", text, re.M)
    assert len(pins) > 1
    assert len(re.findall(r"^[A-Za-z0-9]", text, re.M)) == len(pins), "a line without a hash"
    assert not re.search(r"https?://|--(extra-)?index|--find-links", text)
    assert "torch" not in re.findall(r"^([\w-]+)==", text, re.M)


def test_no_path_of_a_machine():
    words = re.compile(r"(^|[\s\"'(=:])/(work|farm|home|root)/")
    for path in tracked():
        if path.suffix in (".py", ".md", ".yaml", ".toml", ".txt", ".in", "") and path.stat().st_size < 2_000_000:
            for number, line in enumerate(path.read_text(errors="ignore").splitlines(), 1):
                assert not words.search(line) or path == Path(__file__), f"{path.relative_to(ROOT)}:{number}: {line}"


def test_source_files_are_short():
    for path in tracked():
        if path.suffix == ".py" and "tests" not in path.parts:
            assert len(path.read_text().splitlines()) <= 460, f"{path.relative_to(ROOT)} does more than one thing"


def test_every_plug_in_has_its_papers():
    for pyproject in sorted((ROOT / "plugins").glob("*/pyproject.toml")):
        folder = pyproject.parent
        assert (folder / "README.md").stat().st_size > 200, folder
        assert list(folder.glob("tests/test_*.py")), folder
        text = pyproject.read_text()
        assert 'license = "Apache-2.0"' in text
        assert "cimopt.evaluators" in text or folder.name == "components"
