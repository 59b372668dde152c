"""`cimopt report`: finished runs again, one in full or many side by side."""

import json

RUN = (
    "search",
    "space=rram_small",
    "evaluator=tiled_published",
    "tracking=none",
    "runner=serial",
    "report.plots=false",
)


def test_a_run_is_shown_again_and_its_page_rewritten(cimopt):
    done = cimopt(*RUN, "hydra.run.dir=a")
    page = (cimopt.folder / "a" / "report.html").read_text()
    (cimopt.folder / "a" / "report.html").unlink()
    again = cimopt("report", "a")
    assert again.returncode == 0, again.stderr
    assert (cimopt.folder / "a" / "report.html").read_text() == page
    # The same tables and counts; only the folder is printed as it was given.
    assert again.stdout.split("Results:")[0] == done.stdout.split("Results:")[0]
    assert "cimopt search space=rram_small" in page


def test_runs_of_a_sweep_side_by_side_with_the_best_first(cimopt):
    cimopt(*RUN, "-m", "objective=energy", "seed=1,2", "sampler.stop_after=0,2", "hydra.sweep.dir=sweep")
    cimopt(*RUN, "objective.area_max_mm2=-1", "sampler.stop_after=0", "hydra.run.dir=sweep/none")
    assert "5 runs" in cimopt("report", "sweep").stdout
    listed = json.loads(cimopt("report", "sweep", "--json").stdout)
    assert len(listed) == 5
    shown = cimopt("report", "sweep").stdout
    cells = [[c.strip() for c in line.split("│")] for line in shown.splitlines() if line.startswith("│")]
    names, states, scores = zip(*((c[1], c[2], c[3]) for c in cells if c[2] in ("ok", "infeasible")), strict=True)
    assert sorted(states) == ["infeasible", "ok", "ok", "ok", "ok"]
    found = [float(score) for score in scores if score]
    assert found == sorted(found)
    # Runs are called by what differs between them.
    assert sum("objective=energy seed=2" in name for name in names) == 2
    assert not any("space=" in name for name in names)


def test_folders_without_results_are_refused(cimopt):
    for name in ("absent", "."):
        refused = cimopt("report", name)
        assert refused.returncode == 2
        assert "is no run folder and holds none" in refused.stderr
    (cimopt.folder / "torn").mkdir()
    (cimopt.folder / "torn" / "result.json").write_text("{")
    assert "cannot be read" in cimopt("report", "torn").stderr
    (cimopt.folder / "torn" / "result.json").write_text("[1, 2]")
    assert "was not written by cimopt" in cimopt("report", "torn").stderr


def test_a_job_that_ended_on_bad_input_says_why(cimopt):
    cimopt(*RUN, "seed=-1", "hydra.run.dir=bad")
    assert "seed=-1 must be" in cimopt("report", "bad").stdout
