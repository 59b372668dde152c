"""Sweeps through launchers: one study per job, relative paths, what is missing is completed, a dead job loses only itself."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cimopt.workloads

SMALL = (
    "space=rram_small",
    "evaluator=tiled_published",
    "tracking=none",
    "runner=serial",
    "sampler.stop_after=0",
    "report.plots=false",
)


def numbers(run):
    """Trials ever created in a run folder's journal."""
    lines = (run / "study.journal").read_text().splitlines()
    return sum(1 for line in lines if '"params"' in line and '"distributions"' in line)


@pytest.fixture
def own_layers(cimopt):
    """A workload file given by a path relative to where the command is started."""
    shipped = next(p for p in (_zoo() / "alexnet.yaml", *_zoo().glob("*.yaml")) if p.exists())
    (cimopt.folder / "nets").mkdir()
    (cimopt.folder / "nets" / "mine.yaml").write_text(shipped.read_text())
    return "+workload.mine.file=./nets/mine.yaml"


def _zoo():
    return Path(cimopt.workloads.__file__).parent / "zoo"


@pytest.mark.parametrize("launcher", ["ray", "submitit_local"])
def test_a_sweep_through_a_launcher(cimopt, own_layers, launcher):
    pytest.importorskip("ray" if launcher == "ray" else "submitit")
    sweep = ("search", "-m", f"hydra/launcher={launcher}", *SMALL, own_layers, "hydra.sweep.dir=s")
    done = cimopt(*sweep, "seed=1,2", timeout=240)
    assert done.returncode == 0, done.stderr
    runs = sorted(p.parent for p in (cimopt.folder / "s").rglob("result.json"))
    assert len(runs) == 2, "relative paths mean the folder the sweep was started in"
    again = cimopt(*sweep, "seed=1,2", timeout=240)
    assert again.returncode == 0, again.stderr
    assert [numbers(run) for run in runs] == [500, 500], "the same sweep again repeats nothing"


SLURM = ("search", "-m", "hydra/launcher=submitit_slurm", *SMALL, "hydra.sweep.dir=s", "seed=1,2")


def test_a_sweep_without_slurm_is_one_sentence(cimopt):
    pytest.importorskip("submitit")
    if shutil.which("srun"):
        pytest.skip("there is a SLURM here")
    refused = cimopt(*SLURM)
    assert refused.returncode == 2
    assert refused.stderr.startswith("cimopt: hydra/launcher=submitit_slurm: there is no SLURM")
    assert refused.stderr.count("\n") == 1


# SLURM's commands as far as submitit uses them: the array's jobs run here, at once; a job is RUNNING until its
# script has ended.
SBATCH = """for task in 0 1; do
  (SLURM_JOB_ID=$((8 + task)) SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$task SLURM_NTASKS=1 SLURM_PROCID=0 \\
  SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=here bash "$1"; touch "$0.$task") \\
  >/dev/null 2>&1 &
done
echo "Submitted batch job 7"
"""
SRUN = """while [ "${1#-}" != "$1" ]; do case $1 in --output|--error) shift 2;; *) shift;; esac; done
exec "$@"
"""
SACCT = """echo 'JobID|State|NodeList'
for task in 0 1; do
  if [ -e "$(dirname "$0")/sbatch.$task" ]; then state=COMPLETED; else state=RUNNING; fi
  echo "7_$task|$state|here"
done
"""


def test_a_sweep_on_a_pretended_slurm(cimopt, monkeypatch):
    pytest.importorskip("submitit")
    programs = cimopt.folder / "bin"
    programs.mkdir()
    for name, body in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT)):
        (programs / name).write_text(f"#!/bin/bash\n{body}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    done = cimopt(*SLURM, "hydra.launcher.partition=small", timeout=240)
    assert done.returncode == 0, done.stderr
    assert len(list((cimopt.folder / "s").rglob("result.json"))) == 2
    script = next((cimopt.folder / "s").rglob("*submission*.sh")).read_text()
    assert "#SBATCH --partition=small" in script
    assert "#SBATCH --array=0-1%" in script


def test_a_killed_job_is_run_again_and_continues(cimopt):
    """kill -9 of the Ray worker that runs one job of a sweep."""
    pytest.importorskip("ray")
    arguments = (
        "search", "-m", "hydra/launcher=ray", "hydra.launcher.n_jobs=2", "space=rram", "evaluator=tiled_published", "tracking=none", "runner=serial",
        "sampler.stop_after=20", "report.plots=false", "seed=1,2", "hydra.sweep.dir=s",
    )  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "cimopt.cli", *arguments], cwd=cimopt.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )  # fmt: skip
    deadline, killed = time.monotonic() + 120, None
    while time.monotonic() < deadline and killed is None and process.poll() is None:
        time.sleep(0.05)
        for run in (cimopt.folder / "s").glob("*seed=1*"):
            if (run / "study.journal").exists() and numbers(run) >= 500:
                killed = _holder(run / ".driver.lock")
                os.kill(killed, signal.SIGKILL)
    told, _ = process.communicate(timeout=240)
    assert process.returncode == 0, told[-2000:]
    assert killed
    runs = sorted(p.parent for p in (cimopt.folder / "s").rglob("result.json"))
    assert [numbers(run) for run in runs] == [1300, 1300]


def _holder(lock):
    """The process that has the file open and locked."""
    inode = str(lock.stat().st_ino)
    for line in Path("/proc/locks").read_text().splitlines():
        if line.split()[5].rpartition(":")[2] == inode:
            return int(line.split()[4])
    raise AssertionError(f"nobody holds {lock}")
