"""The main job through the real command: results, resume, kill, Ray, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

QUIET = ("evaluator=tiled_published", "tracking=none", "runner=serial")


def small(cimopt, run, *overrides):
    return cimopt("search", "space=rram_small", *QUIET, f"hydra.run.dir={run}", *overrides)


def trials_in(run):
    """Trials created in a run folder's journal, ever."""
    return sum(
        1
        for line in (run / "study.journal").read_text().splitlines()
        if '"params"' in line and '"distributions"' in line
    )


def test_search_finds_the_enumerated_optimum(cimopt):
    assert small(cimopt, "a").returncode == 0
    done = cimopt("enumerate", "space=rram_small", *QUIET, "hydra.run.dir=b")
    assert done.returncode == 0, done.stderr
    best, optimum = cimopt.result("a")["best"], cimopt.result("b")["optimum"]
    assert best["design"] == optimum["design"]
    assert best["score"] == optimum["score"]
    assert cimopt.result("b")["n_evaluated"] == 1200


def test_below_the_best_published_score(cimopt):
    """1.2172 mJ.ms.mm2 is the best published joint score on RRAM (JOINT_SEARCH section 8)."""
    done = cimopt(
        "search", "space=rram", "workload=cnn4_published", "objective=edap", "seed=1", *QUIET, "hydra.run.dir=a"
    )
    assert done.returncode == 0, done.stderr
    result = cimopt.result("a")
    assert result["best"]["score"] < 1.2172
    assert result["best"]["score_unit"] == "mJ.ms.mm2"
    assert result["n_evaluated"] == 2100
    assert result["n_generations"] == 41


def test_result_file_keeps_its_promises(cimopt):
    assert small(cimopt, "a").returncode == 0
    result = cimopt.result("a")
    needed = {
        "status", "best", "top", "n_evaluated", "n_feasible", "n_failed", "n_generations", "seed", "seconds", "space_size",
        "versions", "config_hash",
    }  # fmt: skip
    assert needed <= set(result)
    assert set(result["best"]) >= {"design", "score", "score_unit", "metrics", "constraints"}
    assert set(result["seconds"]) >= {"total", "sampling", "evaluation", "overhead"}
    assert result["space_size"] == 1200
    assert "cimopt" in result["versions"]
    worst = [max(v[m] for v in result["best"]["metrics"].values()) for m in ("energy_j", "latency_s", "area_mm2")]
    assert worst[0] * 1e3 * worst[1] * 1e3 * worst[2] == pytest.approx(result["best"]["score"])
    assert "Infinity" not in (cimopt.folder / "a" / "result.json").read_text()
    for file in ("config.yaml", "report.html", "convergence.png", "designs.png", "trials.parquet", "study.journal"):
        assert (cimopt.folder / "a" / file).stat().st_size > 0


def test_trials_table(cimopt):
    assert small(cimopt, "a").returncode == 0
    table = pq.read_table(cimopt.folder / "a" / "trials.parquet").to_pydict()
    assert len(table["number"]) == 1200
    assert {"energy_j.vgg16", "latency_s.alexnet", "area_mm2", "xbar_rows", "v_op", "score", "violation.cells"} <= set(
        table
    )
    states = set(table["state"])
    assert states == {"ok", "infeasible"}
    finite = [s for s in table["score"] if s is not None]
    assert max(finite) < 1e9, "no number stands for failure (case O9)"
    nothing = [k for k, r in enumerate(table["reason"]) if r]
    assert nothing
    assert all(table["score"][k] is None and table["energy_j.vgg16"][k] is None for k in nothing)


def test_two_folders_same_best_and_a_finished_run_adds_nothing(cimopt):
    """Cases O11, O13."""
    for run in ("a", "b"):
        assert small(cimopt, run, "seed=4").returncode == 0
    assert cimopt.result("a")["best"] == cimopt.result("b")["best"]
    assert cimopt.result("a")["top"] == cimopt.result("b")["top"]
    before = trials_in(cimopt.folder / "a")
    again = small(cimopt, "a", "seed=4")
    assert again.returncode == 0
    assert trials_in(cimopt.folder / "a") == before == 1200
    assert cimopt.result("a")["n_evaluated"] == 1200


def test_killed_half_way_and_run_again(cimopt):
    """Case O10: kill -9 at some trial, run again in the folder, same best and exactly 2,100 designs."""
    arguments = ("search", "space=rram", *QUIET, "report.plots=false")
    assert cimopt(*arguments, "hydra.run.dir=straight").returncode == 0
    command = [sys.executable, "-m", "cimopt.cli", *arguments, "hydra.run.dir=killed"]
    process = subprocess.Popen(command, cwd=cimopt.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = cimopt.folder / "killed" / "study.journal"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not journal.exists() or journal.stat().st_size < 1_000_000):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (cimopt.folder / "killed" / "result.json").exists(), "the run must have been killed before its end"
    assert cimopt(*arguments, "hydra.run.dir=killed").returncode == 0
    straight, killed = cimopt.result("straight"), cimopt.result("killed")
    assert killed["best"] == straight["best"]
    assert killed["top"] == straight["top"]
    assert killed["n_evaluated"] == straight["n_evaluated"] == 2100
    columns = ["number", "v_op", "xbar_rows", "macros_per_tile", "score"]
    rows = [pq.read_table(cimopt.folder / run / "trials.parquet", columns=columns) for run in ("straight", "killed")]
    assert rows[0].equals(rows[1])


def test_stopping_early_and_going_on_equals_a_straight_run(cimopt):
    assert small(cimopt, "a", "sampler.stop_after=1").returncode == 0
    assert cimopt.result("a")["n_evaluated"] == 540
    assert small(cimopt, "a").returncode == 0
    assert small(cimopt, "b").returncode == 0
    assert cimopt.result("a")["best"] == cimopt.result("b")["best"]
    assert cimopt.result("a")["n_evaluated"] == 1200


def test_ray_gives_the_same(cimopt):
    pytest.importorskip("ray")
    arguments = ("search", "space=rram", "seed=1", "tracking=none", "sampler.stop_after=3", "report.plots=false")
    assert cimopt(*arguments, "runner=serial", "hydra.run.dir=a").returncode == 0
    done = cimopt(*arguments, "runner=ray", "runner.workers=2", "hydra.run.dir=b")
    assert done.returncode == 0, done.stderr
    assert cimopt.result("a")["best"] == cimopt.result("b")["best"]
    assert cimopt.result("a")["top"] == cimopt.result("b")["top"]


def test_other_settings_in_a_used_folder_are_refused(cimopt):
    assert small(cimopt, "a", "sampler.stop_after=0").returncode == 0
    before = (cimopt.folder / "a" / "result.json").read_bytes()
    refused = small(cimopt, "a", "seed=2", "objective=energy")
    assert refused.returncode == 2
    assert "seed: 1 -> 2" in refused.stderr
    assert "objective.name: edap -> energy" in refused.stderr
    assert (cimopt.folder / "a" / "result.json").read_bytes() == before


def test_nothing_feasible(cimopt):
    """Case O5: exit code 3, the least-violating designs and the binding constraint are still written."""
    for limit in ("1", "-1"):
        done = small(cimopt, f"a{limit}", f"objective.area_max_mm2={limit}", "sampler.stop_after=0")
        assert done.returncode == 3
        result = cimopt.result(f"a{limit}")
        assert result["status"] == "infeasible"
        assert result["binding_constraint"] == "area_mm2"
        assert result["n_feasible"] == 0
        assert result["best"]["feasible"] is False
        assert result["best"]["constraints"]["area_mm2"]["limit"] == float(limit)
        assert result["best"]["constraints"]["area_mm2"]["unit"] == "mm2"
        assert "No design is feasible" in done.stdout


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("space.fix.xbar_row=64", "did you mean 'xbar_rows'"),
        ("space.parameters.xbar_row.choices=[64]", "did you mean 'xbar_rows'"),
        ("space.fix.xbar_rows=65", "space.fix.xbar_rows=65 is not a choice (allowed: 32, 64, 128, 256, 512)"),
        ("space.parameters.xbar_rows.choices=[]", "'xbar_rows' has no choices: the space would be empty"),
        ("evaluator=tiled_publishd", "unknown evaluator 'tiled_publishd'; did you mean 'tiled_published'"),
        ("evaluator=techcost", "evaluator 'techcost' needs 'area_mm2'"),
        ("objective=edp_cost", "needs the metric 'cost'"),
        ("workload=resnet19", "did you mean 'resnet18'"),
        ("sampler=four_fase", "did you mean 'four_phase'"),
        ("sampler.settings.pol=3", "did you mean 'pool'"),
        ("spce=rram", "unknown config key 'spce'; did you mean 'space'"),
        ("seed=abc", "seed='abc' must be a whole number >= 0"),
        ("objective.area_max_mm2=big", "objective.area_max_mm2='big' must be a finite number"),
        ("evaluator.tiled_published.preset=x", "unknown preset"),
        ("+workload.mine.file=./nope.yaml", "nope.yaml"),
        ("study.storage=nonsense://x", "study.storage=nonsense://x cannot be opened"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(cimopt, override, words):
    done = small(cimopt, "a", override)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("cimopt: ")
    assert words in done.stderr
    left = {p.name for p in (cimopt.folder / "a").rglob("*")} if (cimopt.folder / "a").exists() else set()
    assert left <= {"error.json", "search.log"}


def test_a_sweep_outlives_a_failing_job(cimopt):
    sweep = (
        "search",
        "-m",
        "space=rram_small",
        "seed=1,2",
        "objective=edap,edp_cost",
        "sampler.stop_after=0",
        *QUIET,
        "hydra.sweep.dir=s",
    )
    done = cimopt(*sweep)
    assert done.returncode == 2, "a sweep's exit code is its worst job's"
    assert "needs the metric 'cost'" in done.stderr
    finished = sorted(p.parent.name for p in (cimopt.folder / "s").rglob("result.json"))
    assert len(finished) == 2
    assert all("objective=edap" in name for name in finished)
    assert cimopt(*sweep).returncode == 2
    for path in (cimopt.folder / "s").rglob("study.journal"):
        assert trials_in(path.parent) == 500, "re-running the same sweep repeats nothing"


def test_optuna_samplers_by_name(cimopt):
    for name in ("random", "tpe", "nsga2"):
        done = small(cimopt, name, f"sampler={name}", "sampler.settings.budget=60", "sampler.settings.batch=20")
        assert done.returncode in (0, 3), done.stderr  # 5 of 1,200 designs are feasible: 60 may miss them
        assert len(pq.read_table(cimopt.folder / name / "trials.parquet")) == 60


def test_a_slow_strangers_model(cimopt, with_stranger):
    """Errors use their slot, results are told one by one, a kill loses and doubles nothing."""
    log = cimopt.folder / "calls.txt"
    arguments = (
        "search", "space=rram_small", "workload=alexnet", "evaluator=sleepy", "++evaluator.sleepy.sleep_s=0.02",
        f"++evaluator.sleepy.log={log}", "tracking=none", "runner=serial", "runner.chunk=1", "sampler.settings.start=80",
        "sampler.settings.pool=200", "sampler.stop_after=1", "report.plots=false",
    )  # fmt: skip
    command = [sys.executable, "-m", "cimopt.cli", *arguments, "hydra.run.dir=a"]
    process = subprocess.Popen(command, cwd=cimopt.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not log.exists() or len(log.read_text().splitlines()) < 30):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = cimopt(*arguments, "hydra.run.dir=a")
    assert done.returncode == 0, done.stderr
    result = cimopt.result("a")
    assert result["n_evaluated"] == 120
    table = pq.read_table(cimopt.folder / "a" / "trials.parquet").to_pydict()
    assert table["number"] == list(range(120))
    failed = [k for k, s in enumerate(table["state"]) if s == "error"]
    assert result["n_failed"] == len(failed)
    assert all(table["reason"][k] == "RuntimeError: the mapper gave up" for k in failed)
    calls = log.read_text().splitlines()
    assert len(calls) <= 120 + 1, "at most the design in flight at the kill is evaluated twice"
    assert cimopt(*arguments, "hydra.run.dir=b").returncode == 0
    assert cimopt.result("b")["best"] == result["best"]
    assert len(log.read_text().splitlines()) - len(calls) <= len(failed), (
        "a second study finds the results in the cache"
    )


def test_mlflow_holds_one_comparable_run_per_job(cimopt):
    pytest.importorskip("mlflow")
    done = cimopt(
        "search",
        "-m",
        "space=rram_small",
        "seed=1,2",
        "sampler.stop_after=1",
        "runner=serial",
        "hydra.sweep.dir=s",
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{cimopt.folder}/runs/mlflow.db")
    experiment = client.get_experiment_by_name("cimopt")
    runs = client.search_runs([experiment.experiment_id], max_results=100)
    above = [r.info.run_id for r in runs if "mlflow.parentRunId" not in r.data.tags]
    assert len(above) == 1, "the sweep's own run"
    parents = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == above[0]]
    assert len(parents) == 2
    assert {r.data.tags["cimopt.seed"] for r in parents} == {"1", "2"}
    for run in parents:
        tags = run.data.tags
        assert (tags["cimopt.space"], tags["cimopt.workload"], tags["cimopt.sampler"]) == (
            "rram_small",
            "cnn4",
            "four_phase",
        )
        assert run.data.params["objective.name"] == "edap"
        assert len(client.get_metric_history(run.info.run_id, "gen/feasible_share")) == 2
        assert len(client.get_metric_history(run.info.run_id, "gen/diversity")) == 2
        names = {a.path for a in client.list_artifacts(run.info.run_id)}
        assert {"config.yaml", "result.json", "trials.parquet", "report.html", "convergence.png"} <= names
        folder = next(
            p.parent
            for p in (cimopt.folder / "s").rglob("result.json")
            if f"seed={tags['cimopt.seed']}" in p.parent.name
        )
        result = json.loads((folder / "result.json").read_text())
        assert run.data.metrics["best_score"] == result["best"]["score"]
        children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == run.info.run_id]
        assert len(children) == len(result["top"])
    assert not (cimopt.folder / "mlruns").exists(), "nothing is left in the current folder"
