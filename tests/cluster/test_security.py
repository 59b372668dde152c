"""What we start is closed to others: loopback alone, Ray behind a token that only its user can read."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cimopt.runners.ray_setup import keep_token_private


def test_the_tests_postgresql_listens_on_loopback_alone(postgres, listeners):
    assert listeners(postgres.port) == {"0100007F"}


def test_a_new_token_is_private_and_an_old_one_becomes_so(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray" / "auth_token"
    keep_token_private()
    kept = token.read_text()
    assert len(kept) == 64
    assert token.stat().st_mode & 0o777 == 0o600
    token.chmod(0o644)
    keep_token_private()
    assert token.read_text() == kept
    assert token.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in token.parent.iterdir()] == ["auth_token"]


def test_a_token_given_by_the_environment_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "given")
    keep_token_private()
    assert not (tmp_path / ".ray").exists()


def test_a_local_cluster_refuses_who_has_another_token(tmp_path):
    pytest.importorskip("ray")
    owner, stranger = tmp_path / "owner", tmp_path / "stranger"
    (stranger / ".ray").mkdir(parents=True)
    (stranger / ".ray" / "auth_token").write_text("0" * 64)
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")} | {"RAY_USAGE_STATS_ENABLED": "0"}

    def knocks(home, mode):
        """Exit code of Ray's own health check."""
        command = [str(Path(sys.executable).with_name("ray")), "health-check", "--address", address]
        return subprocess.run(
            command, env=env | {"HOME": str(home), "RAY_AUTH_MODE": mode}, capture_output=True, timeout=120, check=False
        ).returncode  # fmt: skip

    command = [sys.executable, "-m", "cimopt.cli", "cluster", "local", "--nodes", "1"]
    with subprocess.Popen(
        command, env=env | {"HOME": str(owner)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as cluster:
        try:
            address = json.loads(cluster.stdout.readline())["address"]
            assert address.startswith("127.")
            assert (owner / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600
            assert knocks(owner, "token") == 0
            assert knocks(stranger, "token") != 0
            assert knocks(stranger, "disabled") != 0
        finally:
            cluster.terminate()


ROOT = Path(__file__).resolve().parents[2]
RUNS_WHAT_IT_READS = re.compile(
    r"yaml\.(unsafe_|full_)?load\(|unsafe_load|pickle\.load|allow_pickle=True|(?<![\w.])(eval|exec)\("
)
# Kits for plug-in authors send their own object there and back; the launcher does so with a job's return.
OWN_OBJECTS = ("cimopt/testing/", "plugins/raylauncher/")


def test_nothing_read_from_outside_is_unpickled_or_executed():
    sources = [*(ROOT / "cimopt").rglob("*.py"), *(ROOT / "plugins").glob("*/cimopt_*/**/*.py")]
    assert len(sources) > 50
    found = [p.relative_to(ROOT).as_posix() for p in sources if RUNS_WHAT_IT_READS.search(p.read_text())]
    assert [p for p in found if not p.startswith(OWN_OBJECTS)] == []
