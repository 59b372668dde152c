"""docs/cluster: the recipe files are what Ray, Kubernetes and bash read, and every command in them composes."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from cimopt.config.compose import CONF_MODULE, compose_config, register
from cimopt.config.schema import parse

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "cluster"


def commands():
    """Every `cimopt search ...` of the folder, as arguments; a sweep's first job stands for all."""
    text = "\n".join(path.read_text() for path in sorted(RECIPES.iterdir()))
    for command in re.findall(r"cimopt search [^`|\n]*=[^`|\n]*", text):
        # What the shell fills in.
        plain = command.rstrip(" &").replace("$address:$port", "127.0.0.2:6379").replace('"$@"', "")
        yield shlex.split(plain)[2:]


@pytest.mark.parametrize("arguments", list(commands()), ids=" ".join)
def test_commands_compose(arguments, monkeypatch):
    monkeypatch.setenv("CIMOPT_STORE", "postgresql://cimopt@host/studies")
    monkeypatch.setenv("CIMOPT_TRACKING", "http://host:5000")
    one = [a.split(",")[0] for a in arguments if a != "-m"]
    if "hydra/launcher=submitit_slurm" in one:
        pytest.importorskip("submitit")
    register()
    GlobalHydra.instance().clear()
    with initialize_config_module(CONF_MODULE, version_base="1.3"):
        launcher = compose("config", overrides=one, return_hydra_config=True).hydra.launcher
    assert ("SlurmLauncher" in launcher._target_) == ("hydra/launcher=submitit_slurm" in one)
    rest = [a for a in one if not a.startswith(("hydra.", "hydra/"))]
    parse(OmegaConf.to_container(compose_config(rest), resolve=True))


def test_there_are_commands():
    listed = [" ".join(c) for c in commands()]
    assert len(listed) >= 6
    assert any("submitit_slurm" in c for c in listed)


def test_the_ray_cluster_passes_rays_schema():
    ray = pytest.importorskip("ray")
    jsonschema = pytest.importorskip("jsonschema")
    cluster = yaml.safe_load((RECIPES / "ray-cluster.yaml").read_text())
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(cluster, schema)
    assert cluster["provider"]["type"] == "local"
    assert {"head_ip", "worker_ips"} <= set(cluster["provider"])
    assert cluster["max_workers"] == len(cluster["provider"]["worker_ips"])
    starts = [
        c for key in ("head_start_ray_commands", "worker_start_ray_commands") for c in cluster[key] if "ray start" in c
    ]
    assert len(starts) == 2
    assert all("RAY_AUTH_MODE=token" in c for c in starts)


def test_the_kuberay_job_has_what_the_operator_needs():
    job = yaml.safe_load((RECIPES / "kuberay-job.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = job["spec"]["rayClusterSpec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    assert shlex.split(job["spec"]["entrypoint"])[:2] == ["cimopt", "search"]
    assert all({"groupName", "replicas", "minReplicas", "maxReplicas"} <= set(g) for g in groups[1:])
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["rayVersion"], "the operator asks for it where a token is used"
    for group in groups:
        pod = group["template"]["spec"]
        assert "rayStartParams" in group
        volumes = {v["name"] for v in pod.get("volumes", ())}
        for container in pod["containers"]:
            assert container["image"]
            assert {m["name"] for m in container.get("volumeMounts", ())} <= volumes
            assert {"limits", "requests"} <= set(container["resources"])


# ------------------------------------------------------------------------- SLURM, with stand-ins
STAND_INS = {
    # Options are dropped, the command runs here; every call is a line of the log.
    "srun": 'while [ "${1#-}" != "$1" ]; do case $1 in --output|--error) shift 2;; *) shift;; esac; done\nexec "$@"',
    "scontrol": "printf 'node1\\nnode2\\nnode3\\n'",
    "hostname": "echo 127.0.0.1",
    "cimopt": "exec {python} {folder}/search.py",
    "ray": 'case "$*" in *--head*) exec {python} {folder}/head.py "$@";; *) sleep 60;; esac',
}
HEAD = """import socket, sys, time
port = int(next(a for a in sys.argv if a.startswith("--port=")).partition("=")[2])
with socket.create_server(("127.0.0.1", port)):
    time.sleep(60)
"""
SEARCH = """import pathlib, time
try:
    pathlib.Path(__file__).with_name("started").touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)  # writes its result
    pathlib.Path(__file__).with_name("ended").touch()
    raise SystemExit(130)
"""


def stand_in(folder, name, body):
    """An executable on PATH that notes its call."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/bash\necho "{name} $*" >> {folder}/calls\n{body}\n')
    path.chmod(0o755)


def test_the_slurm_script_starts_a_cluster_and_passes_ctrl_c_on(tmp_path):
    for name, body in STAND_INS.items():
        stand_in(tmp_path, name, body.replace("{python}", sys.executable).replace("{folder}", str(tmp_path)))
    (tmp_path / "head.py").write_text(HEAD)
    (tmp_path / "search.py").write_text(SEARCH)
    (tmp_path / "bin" / "activate").write_text(f"PATH={tmp_path}/bin:$PATH\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        **os.environ, "CIMOPT_VENV": str(tmp_path), "HOME": str(tmp_path), "SLURM_JOB_NODELIST": "node[1-3]",
        "SLURM_JOB_ID": str((port - 20000) % 20000), "SLURM_CPUS_PER_TASK": "4",
    }  # fmt: skip
    job = subprocess.Popen(
        ["bash", str(RECIPES / "slurm.sh"), "space=sram"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )  # fmt: skip
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "started").exists() and job.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        job.send_signal(signal.SIGINT)  # what --signal=B:INT does
        assert job.wait(60) == 130
    finally:
        for pid in _pids_of(tmp_path):
            os.kill(pid, signal.SIGKILL)
        job.kill()
    assert (tmp_path / "ended").exists(), "the script waits until the search has written its result"
    calls = (tmp_path / "calls").read_text()
    assert "--nodes=2 --ntasks=2 --exclude=node1" in calls
    assert re.search(r"^cimopt search runner=ray runner.address=127\.0\.0\.1:\d+ space=sram$", calls, re.M)
    token = tmp_path / ".ray" / "auth_token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert "auth_token" not in calls


def _pids_of(folder):
    """Processes whose environment names the folder: the stand-ins that still sleep."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"CIMOPT_VENV={folder}\0".encode() in path.read_bytes():
                yield int(path.parent.name)
        except OSError:
            continue
