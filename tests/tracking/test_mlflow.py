"""MLflow: what it refuses is mapped and kept (cases T1 to T5), and it never stops a search."""

import json
import platform
import re
import shutil
import threading
from pathlib import Path

import pytest

from cimopt.tracking import MlflowTracker, NoTracker, flatten, make_tracker, safe_name

pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    return f"sqlite:///{folder / 'mlflow.db'}", folder / "artifacts"


@pytest.fixture
def tracker(store):
    return MlflowTracker(store[0], "tests", store[1])


@pytest.fixture
def client(store):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=store[0])


def test_long_values_go_to_an_artifact(tracker, client, tmp_path):
    """Case T1: a 7,000-character layer list; case T2: 501 parameters."""
    params = {f"p{i}": i for i in range(500)} | {"layers": "x" * 7000}
    run_id = tracker.start("long", params, {}, None)
    tracker.finish("FINISHED", [], "note")
    run = client.get_run(run_id)
    assert len(run.data.params) == 501
    assert run.data.params["layers"].startswith("see long_params.json")
    kept = json.loads(Path(client.download_artifacts(run_id, "long_params.json", str(tmp_path))).read_text())
    assert kept["layers"] == "x" * 7000


def test_illegal_names_are_mapped_without_collision(tracker, client):
    """Case T3."""
    names = ["energy[pJ]", "resnet18:lat(µs)", "a@b", "a#b", "01: x"]
    assert len({safe_name(n) for n in names}) == len(names)
    assert safe_name("gen/best") == "gen/best"
    run_id = tracker.start("names", {n: 1 for n in names}, {n: "t" for n in names}, None)
    tracker.metrics({n: float(i) for i, n in enumerate(names)})
    tracker.finish("FINISHED", [], "")
    data = client.get_run(run_id).data
    assert [data.metrics[safe_name(n)] for n in names] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert set(data.params) == {safe_name(n) for n in names}


def test_non_finite_metrics_are_left_out_and_named(tracker, client):
    """Case T4."""
    run_id = tracker.start("nan", {}, {}, None)
    tracker.metrics({"energy": float("nan"), "latency": float("inf"), "area": 1.0, "cost": None})
    tracker.finish("FINISHED", [], "")
    run = client.get_run(run_id)
    assert set(run.data.metrics) == {"area"}
    assert run.data.tags["nonfinite"] == "cost,energy,latency"
    assert run.info.status == "FINISHED"


def test_threads_do_not_meet_each_others_runs(store, client):
    """Case T5: 4 threads, each with a parent and 4 children."""
    ids = []

    def one(k):
        tracker = MlflowTracker(store[0], "threads", store[1])
        ids.append(tracker.start(f"study {k}", {"k": k}, {}, None))
        for rank in range(4):
            tracker.child(f"top {rank}", {"rank": rank}, {"score": float(rank)})
        tracker.finish("FINISHED", [], "")

    MlflowTracker(store[0], "threads", store[1]).start("first", {}, {}, None)  # creates the experiment once
    threads = [threading.Thread(target=one, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    experiment = client.get_experiment_by_name("threads").experiment_id
    runs = client.search_runs([experiment], max_results=100)
    children = [r for r in runs if "mlflow.parentRunId" in r.data.tags]
    assert len(ids) == 4
    assert len(children) == 16
    assert {r.data.tags["mlflow.parentRunId"] for r in children} == set(ids)
    assert all(r.info.status == "FINISHED" for r in children)


def test_a_sweeps_studies_are_beneath_one_run(store, client, tmp_path):
    def start():
        tracker = MlflowTracker(store[0], "sweeps", store[1])
        return client.get_run(tracker.start("study", {}, {}, None, tmp_path / "mine")).data.tags["mlflow.parentRunId"]

    above = start()
    assert start() == above
    assert client.get_run(above).info.run_name == "mine"
    client.delete_run(above)
    (tmp_path / "mine" / ".mlflow_parent").write_text("0" * 32)  # of a store that is gone
    assert start() not in (above, "0" * 32)


def test_a_run_says_where_it_was_made(tracker, client):
    tags = client.get_run(tracker.start("here", {}, {"cimopt.seed": "1"}, None)).data.tags
    assert tags["cimopt.version.python"] == platform.python_version()
    assert platform.machine() in tags["cimopt.system"]
    if (Path(__file__).resolve().parents[2] / ".git").exists() and shutil.which("git"):
        assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", tags["cimopt.version.commit"])


def test_the_experiment_keeps_the_comparison_view(tracker, client):
    tracker.start("one", {}, {"cimopt.seed": "1"}, None)
    kept = client.get_experiment_by_name("tests")
    view = json.loads(kept.tags["mlflow.sharedViewState.cimopt"])
    named = [r.info.run_name for r in client.search_runs([kept.experiment_id], view["searchFilter"])]
    assert "one" in named
    assert set(named) <= {"one", "here"}, "the other runs of this experiment carry no seed"
    client.delete_experiment_tag(kept.experiment_id, "mlflow.sharedViewState.cimopt")
    MlflowTracker(tracker._uri, "tests", None).start("an experiment made by hand", {}, {}, None)
    assert "mlflow.sharedViewState.cimopt" in client.get_experiment_by_name("tests").tags


def test_a_resumed_study_continues_its_run(tracker, client, store):
    run_id = tracker.start("again", {"a": 1}, {}, None)
    tracker.metrics({"gen/best": 5.0}, 0)
    later = MlflowTracker(store[0], "tests", store[1])
    assert later.start("again", {"a": 1}, {}, run_id) == run_id
    later.metrics({"gen/best": 4.0}, 1)
    assert [m.value for m in client.get_metric_history(run_id, "gen/best")] == [5.0, 4.0]


@pytest.mark.filterwarnings("always")
def test_a_store_that_fails_warns_once_and_hides_passwords(tmp_path):
    blocked = tmp_path / "a_file"
    blocked.touch()  # no folder can be made here, so the store cannot open
    tracker = MlflowTracker(f"sqlite:///{blocked}/mlflow.db?x=://me:secret@host", "e", None)
    with pytest.warns(UserWarning, match="the search goes on without it") as caught:  # noqa: PT031
        assert tracker.start("x", {}, {}, None) is None
        tracker.metrics({"a": 1.0})
        tracker.child("c", {}, {})
        tracker.finish("FINISHED", [], "")
    told = [str(w.message) for w in caught if "goes on without" in str(w.message)]
    assert len(told) == 1
    assert "secret" not in told[0]


def test_no_tracking_is_a_tracker(tmp_path):
    tracker = make_tracker("none", None, "e", tmp_path)
    assert isinstance(tracker, NoTracker)
    assert tracker.start("x", {}, {}, None) is None


def test_flatten():
    assert flatten({"a": {"b": 1, "c": {}}, "d": [1]}) == {"a.b": 1, "a.c": {}, "d": [1]}
