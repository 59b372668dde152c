"""study.store: the same search whatever is kept; compact studies survive a kill and stay as begun."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from cimopt.scores.objectives import Scores
from cimopt.store.journal import mend
from cimopt.store.ledger import KEPT, Batch, CompactLedger
from cimopt.types import Metrics

RUN = (
    "search",
    "space=rram_small",
    "evaluator=tiled_published",
    "tracking=none",
    "runner=serial",
    "report.plots=false",
)


def test_every_store_gives_the_same_search(cimopt):
    for store in ("full", "generation", "best"):
        done = cimopt(*RUN, f"study.store={store}", f"hydra.run.dir={store}")
        assert done.returncode == 0, done.stderr
    full = cimopt.result("full")
    for store in ("generation", "best"):
        other = cimopt.result(store)
        for key in ("best", "top", "n_evaluated", "n_feasible", "n_failed", "n_generations"):
            assert other[key] == full[key], (store, key)
    tables = {s: pq.read_table(cimopt.folder / s / "trials.parquet") for s in ("full", "generation", "best")}
    # The order of columns follows the first generation's metrics; the content is the same.
    assert tables["generation"].select(tables["full"].column_names).equals(tables["full"])
    assert len(tables["best"]) == full["n_feasible"], "all feasible designs, as there are fewer than are kept"


def test_a_killed_compact_study_goes_on_where_it_was(cimopt):
    arguments = ("search", "space=rram", *RUN[2:], "study.store=best")
    assert cimopt(*arguments, "hydra.run.dir=straight").returncode == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "cimopt.cli", *arguments, "hydra.run.dir=killed"], cwd=cimopt.folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    parts, deadline = cimopt.folder / "killed" / "generations", time.monotonic() + 60
    while time.monotonic() < deadline and len(list(parts.glob("part-*.npz"))) < 6:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (cimopt.folder / "killed" / "result.json").exists()
    assert cimopt(*arguments, "hydra.run.dir=killed").returncode == 0
    straight, killed = cimopt.result("straight"), cimopt.result("killed")
    for key in ("best", "top", "n_evaluated", "n_feasible", "n_failed", "n_generations"):
        assert killed[key] == straight[key], key


def test_a_study_keeps_the_way_it_was_begun_with(cimopt):
    assert cimopt(*RUN, "sampler.stop_after=0", "hydra.run.dir=a").returncode == 0
    refused = cimopt(*RUN, "study.store=best", "hydra.run.dir=a")
    assert refused.returncode == 2
    assert "begun with study.store=full" in refused.stderr
    refused = cimopt(*RUN, "study.store=best", "sampler=random", "hydra.run.dir=b")
    assert refused.returncode == 2
    assert "reads every trial; use study.store=full" in refused.stderr
    assert "did you mean 'best'" in cimopt(*RUN, "study.store=bst", "hydra.run.dir=c").stderr


def _batch(first, n, rng):
    metrics = Metrics({"energy_j": rng.random((n, 1))}, ("w",))
    scores = Scores(rng.random((n, 1)), {"area": rng.normal(size=n)}, np.zeros(n, bool))
    return Batch(np.arange(first, first + n), rng.integers(0, 5, (n, 3)), metrics, scores)


def test_a_compact_ledger_keeps_the_best_whole_and_nothing_else(tmp_path, rng):
    ledger, batches = CompactLedger(tmp_path), [_batch(1000 * k, 1000, rng) for k in range(4)]
    kept = []
    for batch in batches:
        kept.append(ledger.keeps(batch))
        ledger.add(batch)
    values = np.concatenate([np.where(b.scores.feasible, b.scores.scalar, np.inf) for b in batches])
    assert set(ledger.detailed().number) == set(np.argsort(values)[:KEPT])
    assert ledger.merged().metrics.values == {}
    assert sum(len(k.number) for k in kept) < 4 * KEPT + 1
    from cimopt.store.ledger import _concat

    again = CompactLedger(tmp_path)
    again.resume(_concat(kept))
    again_best, best = again.detailed(), ledger.detailed()
    assert set(best.number) <= set(again_best.number)
    assert np.array_equal(again.merged().genes, ledger.merged().genes)
    assert np.array_equal(again.merged().scores.feasible, ledger.merged().scores.feasible)


@pytest.mark.parametrize(("text", "left"), [("a\nb\nto", "a\nb\n"), ("a\n", "a\n"), ("torn", ""), ("", "")])
def test_a_torn_record_is_cut_off(tmp_path, text, left):
    path = tmp_path / "study.journal"
    path.write_text(text)
    mend(path)
    assert path.read_text() == left
    mend(tmp_path / "absent")
