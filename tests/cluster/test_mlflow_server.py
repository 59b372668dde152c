"""An MLflow server on PostgreSQL with an artifact folder: a sweep's runs, their comparison as a person sees it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cimopt.commands import ui
from cimopt.store.database import PatientStorage
from cimopt.store.urls import driver_url
from cimopt.tracking import MlflowTracker

pytest.importorskip("mlflow")


@contextmanager
def server(backend, artifacts, port):
    """In a process group of its own, since it starts several processes that outlive their parent."""
    command = [*ui.server("127.0.0.1", port), "--artifacts-destination", str(artifacts)]
    env = ui.environment(backend)
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=artifacts
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        time.sleep(1)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(address, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2).read()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the MLflow server did not start")


def test_eight_studies_at_once_on_shared_stores_and_their_comparison(cimopt, postgres, script, listeners, tmp_path):
    from mlflow import MlflowClient

    (tmp_path / "artifacts").mkdir()
    port = script("soak_postgres").free_port()
    studies = postgres.url("studies")
    with server(postgres.url("mlflow"), tmp_path / "artifacts", port) as uri:
        assert listeners(port) == {"0100007F"}, "loopback alone"
        done = cimopt(
            "search", "-m", "hydra/launcher=ray", "space=rram_small", "evaluator=tiled_published", "sampler=four_phase,plain_ga",
            "objective=edap,energy", "seed=1,2", "sampler.stop_after=6", "runner=serial", f"tracking.uri={uri}",
            f"study.storage={studies}", "hydra.sweep.dir=sweep_of_samplers", timeout=400,
        )  # fmt: skip
        assert done.returncode in (0, 3), done.stderr
        _no_password_in(cimopt.folder / "sweep_of_samplers")
        assert "secret" not in done.stdout + done.stderr
        storage = PatientStorage(driver_url(studies, ""))
        counts = sorted(storage.count(s._study_id) for s in storage.get_all_studies())
        assert counts == [7 * 40] * 4 + [500 + 6 * 40] * 4, "plain_ga starts with 40, four_phase with 500"
        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name("cimopt").experiment_id
        runs = client.search_runs([experiment], "tags.`cimopt.sweep` = 'sweep_of_samplers'", max_results=100)
        keys = ("cimopt.sampler", "cimopt.objective", "cimopt.seed")
        assert {tuple(r.data.tags[k] for k in keys) for r in runs} == {
            (s, o, n) for s in ("four_phase", "plain_ga") for o in ("edap:max", "energy:max") for n in "12"
        }
        assert len(runs) == 8
        above = client.search_runs([experiment], "tags.`cimopt.parent_of_sweep` = 'sweep_of_samplers'")
        assert len(above) == 1, "eight jobs, one run above them"
        assert {r.data.tags["mlflow.parentRunId"] for r in runs} == {above[0].info.run_id}
        for run in runs:
            assert len(client.get_metric_history(run.info.run_id, "gen/feasible_share")) == 7
            kept = client.download_artifacts(run.info.run_id, "result.json", str(tmp_path))
            assert json.loads(Path(kept).read_text())["seed"] == int(run.data.tags["cimopt.seed"])
        _pictures(script("mlflow_pictures").pictures, uri, experiment, tmp_path)


def _no_password_in(folder):
    for path in folder.rglob("*"):
        assert "secret" not in path.name
        assert path.is_dir() or b"secret" not in path.read_bytes(), path


def _pictures(pictures, uri, experiment, folder):
    """The view that docs/mlflow.md explains, as a person sees it; kept where CIMOPT_SCREENSHOTS says."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed (scripts/ci_services.sh installs it): no screenshots; all else passed")
    for picture in pictures(uri, experiment, folder):
        assert picture.stat().st_size > 30_000, f"{picture.name}: an empty page"
        if os.environ.get("CIMOPT_SCREENSHOTS"):
            shutil.copy(picture, os.environ["CIMOPT_SCREENSHOTS"])


def test_curves_of_a_store_that_went_away_are_sent_when_it_is_back(postgres, tmp_path):
    from mlflow import MlflowClient

    uri = postgres.url("curves")
    tracker = MlflowTracker(uri, "e", tmp_path / "artifacts")
    run_id = tracker.start("run", {"a": 1}, {"t": "x"}, None)
    assert run_id
    tracker.metrics({"gen/best": 3.0}, 0)
    postgres.stop()
    try:
        with pytest.warns(UserWarning, match="goes on without it") as told:
            tracker.metrics({"gen/best": 2.0}, 1)
        assert not [w for w in told if "secret" in str(w.message)]
    finally:
        postgres.start()
    tracker.metrics({"gen/best": 1.0}, 2)
    tracker.finish("FINISHED", [], "")
    client = MlflowClient(tracking_uri=driver_url(uri, ""))
    assert [(m.step, m.value) for m in client.get_metric_history(run_id, "gen/best")] == [(0, 3.0), (1, 2.0), (2, 1.0)]
    assert client.get_run(run_id).info.status == "FINISHED"
    assert not (tmp_path / "mlruns").exists()


def test_eight_trackers_start_at_once_on_an_empty_database(postgres, tmp_path):
    """Tables and experiment are made once (O12)."""
    code = (
        "import sys; from pathlib import Path; from cimopt.tracking import MlflowTracker; import warnings\n"
        "warnings.simplefilter('error', UserWarning)\n"
        "t = MlflowTracker(sys.argv[1], 'e', Path(sys.argv[2]))\n"
        "assert t.start('r', {}, {}, None); t.finish('FINISHED', [], '')"
    )
    command = [sys.executable, "-c", code, postgres.url("trackers"), str(tmp_path / "artifacts")]
    drivers = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    told = [driver.communicate(timeout=180)[1] for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0] * 8, told
