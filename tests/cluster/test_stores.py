"""Stores by URL: which are refused, made once by many at a time (O12), exactly n (O13), away and back, one owner."""

import json
import multiprocessing
import signal
import subprocess
import sys
import threading
import time

import optuna
import pytest

from cimopt.errors import InputError, StudyConflictError, masked
from cimopt.store import study
from cimopt.store.database import Lease, PatientStorage
from cimopt.store.urls import driver_url, network_file_system, refuse_unsafe_sqlite

QUIET = ("evaluator=tiled_published", "tracking=none", "runner=serial", "report.plots=false")


def test_plain_postgresql_url_names_the_installed_driver():
    assert driver_url("postgresql://me@host/db", "study.storage") == "postgresql+psycopg://me@host/db"
    assert driver_url("postgres://me@host/db", "study.storage") == "postgresql+psycopg://me@host/db"
    for other in ("postgresql+psycopg2://me@host/db", "sqlite:///a.db", "mysql://me@host/db"):
        assert driver_url(other, "study.storage") == other


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush@host/db", r"postgresql\://me\:hush@host\:5432/db", "postgresql://:hush@host/db",
        "postgresql://host/db?user=me&password=hush", "http://me:hush@host:5000",
    ],
)  # fmt: skip
def test_passwords_are_masked_in_every_spelling(url):
    assert "hush" not in masked(f"x={url} y")
    assert masked(f"{url} and a:b@c").endswith(" and a:b@c")


def test_sqlite_is_refused_on_a_network_file_system_and_with_many_writers(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/x / ext4 rw 0 0\nserver:/a {tmp_path} nfs4 rw 0 0\n")
    url = f"sqlite:///{tmp_path}/a.db"
    assert network_file_system(tmp_path / "deeper", str(mounts)) == "nfs4"
    with pytest.raises(InputError, match=r"SQLite loses data on a network file system \(nfs4\); use postgresql://"):
        refuse_unsafe_sqlite(url, "study.storage", many_writers=False, mounts=str(mounts))
    with pytest.raises(InputError, match=r"takes one writer.*use postgresql://"):
        refuse_unsafe_sqlite(url, "study.storage", many_writers=True)
    refuse_unsafe_sqlite(url, "study.storage", many_writers=False)
    refuse_unsafe_sqlite("postgresql://host/db", "study.storage", many_writers=True)


def test_a_sweep_in_parallel_is_refused_an_sqlite_store(cimopt):
    done = cimopt(
        "search", "-m", "hydra/launcher=joblib", "seed=1,2", "space=rram_small", *QUIET, "study.storage=sqlite:///a.db"
    )
    assert done.returncode == 2
    assert "SQLite takes one writer" in done.stderr + done.stdout
    assert not (cimopt.folder / "a.db").exists()


def test_postgresql_study_equals_the_journal_and_a_finished_one_adds_nothing(cimopt, postgres):
    """Case O13, and no password in any file or on the screen."""
    url = postgres.url("o13")
    small = ("search", "space=rram_small", *QUIET)
    assert cimopt(*small, "hydra.run.dir=a").returncode == 0
    for run in ("b", "b"):
        done = cimopt(*small, f"hydra.run.dir={run}", f"study.storage={url}")
        assert done.returncode == 0, done.stderr
        assert "secret" not in done.stdout + done.stderr
    a, b = cimopt.result("a"), cimopt.result("b")
    assert (a["best"], a["top"], a["n_evaluated"]) == (b["best"], b["top"], b["n_evaluated"])
    storage = PatientStorage(driver_url(url, ""))
    assert storage.count(storage.get_all_studies()[0]._study_id) == 1200
    for path in (cimopt.folder / "b").rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes(), path


def _open_and_add(url, k):
    shared, one, lease = study._open_shared(f"study {k}", url, optuna.samplers.RandomSampler(), 1)
    trials = [optuna.trial.create_trial(value=float(i)) for i in range(5)]
    shared.insert(one._study_id, 0, trials)
    lease.release()


def test_results_told_in_one_write_are_as_if_told_singly(postgres):
    """Also again after a lost answer, and over what a killed driver left of a result."""
    shared, one, lease = study._open_shared("told", postgres.url("told"), optuna.samplers.RandomSampler(seed=1), 1)
    distributions = {"a": optuna.distributions.IntDistribution(0, 9)}
    asked = [one.ask(distributions) for _ in range(4)]
    attributes = [{"design": {"a": 1}, "metrics": {"energy_j": [1.0, 2.0]}}, {"design": {"a": 2}, "reason": "broken"}]
    for key, value in attributes[0].items():
        asked[0].set_user_attr(key, value)
    asked[0].set_constraint("area", -0.5)
    one.tell(asked[0], 3.0)
    asked[1].set_user_attr("reason", "broken")
    asked[1].set_user_attr("design", {"a": 2})
    one.tell(asked[1], state=optuna.trial.TrialState.FAIL)
    asked[2].set_user_attr("design", "half told")
    results = [
        optuna.trial.create_trial(value=3.0, user_attrs=attributes[0], constraints={"area": -0.5}),
        optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL, user_attrs=attributes[1]),
    ]
    for _ in range(2):
        shared.finish([asked[2]._trial_id, asked[3]._trial_id], results)
    held = one.get_trials()
    for singly, together in ((held[0], held[2]), (held[1], held[3])):
        for key in ("state", "values", "user_attrs", "constraints"):
            assert getattr(singly, key) == getattr(together, key), key
        assert together.params == asked[together.number].params
        assert abs((singly.datetime_complete - together.datetime_complete).total_seconds()) < 600
    lease.release()


def test_eight_drivers_start_at_once_on_an_empty_store(postgres):
    """Case O12: tables are made once; each driver finds its own study whole."""
    url = postgres.url("o12")
    fork = multiprocessing.get_context("fork")
    drivers = [fork.Process(target=_open_and_add, args=(url, k)) for k in range(8)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(60)
    assert [driver.exitcode for driver in drivers] == [0] * 8
    storage = PatientStorage(driver_url(url, ""))
    assert [storage.count(s._study_id) for s in storage.get_all_studies()] == [5] * 8


def test_a_store_that_is_not_there_is_one_sentence(monkeypatch):
    monkeypatch.setattr(study, "OPENING_S", 0.5)
    with pytest.raises(
        InputError, match=r"study.storage=postgresql://me:\*\*\*@127.0.0.1:1/db cannot be opened: "
    ) as told:
        study._open_shared("s", "postgresql://me:secret@127.0.0.1:1/db", None, 1)
    assert "refused" in str(told.value)
    assert "secret" not in str(told.value)


def test_a_wrong_password_is_not_waited_for(postgres):
    url = postgres.url("wrong").replace(":secret@", ":guess@")
    began = time.monotonic()
    with pytest.raises(InputError, match="password authentication failed"):
        study._open_shared("s", url, None, 1)
    assert time.monotonic() - began < 5


# ------------------------------------------------------------------ away and back
def test_writes_wait_for_a_store_that_restarts(postgres):
    storage = PatientStorage(driver_url(postgres.url("away"), ""))
    made = optuna.create_study(storage=storage, study_name="s")
    made.add_trial(optuna.trial.create_trial(value=1.0))
    postgres.stop()
    back = threading.Timer(1.5, postgres.start)
    back.start()
    try:
        trial = made.ask({"x": optuna.distributions.IntDistribution(0, 3)})
    finally:
        back.join()
    postgres.stop()
    back = threading.Timer(1.0, postgres.start)
    back.start()
    try:
        trial.set_user_attr("a", 1)
        made.tell(trial, 2.0)
    finally:
        back.join()
    again = optuna.load_study(storage=PatientStorage(storage.url), study_name="s")
    assert [(t.number, t.value) for t in again.trials] == [(0, 1.0), (1, 2.0)]


def test_a_bulk_write_whose_answer_is_lost_is_not_done_twice(postgres):
    storage = PatientStorage(driver_url(postgres.url("twice"), ""))
    made = optuna.create_study(storage=storage, study_name="s")
    three = [optuna.trial.create_trial(value=float(k), user_attrs={"k": k}) for k in range(3)]
    for _ in range(2):
        storage.insert(made._study_id, 0, three)
    assert [t.value for t in made.trials] == [0.0, 1.0, 2.0]
    assert [t.user_attrs for t in made.trials] == [{"k": 0}, {"k": 1}, {"k": 2}]
    with pytest.raises(StudyConflictError, match="another driver has written"):
        storage.insert(made._study_id, 1, three)


# -------------------------------------------------------------------------- lease
@pytest.fixture
def engine(tmp_path):
    import sqlalchemy

    return sqlalchemy.create_engine(f"sqlite:///{tmp_path}/lease.db")


def test_a_second_driver_is_refused_until_the_first_is_done(engine):
    first = Lease(engine, "s")
    with pytest.raises(StudyConflictError, match="study 's' is in use by the cimopt process"):
        Lease(engine, "s")
    Lease(engine, "another").release()
    first.release()
    Lease(engine, "s").release()


def test_a_lease_is_renewed_in_time_and_ends_when_it_is_not(engine):
    first = Lease(engine, "s", lease_s=2.0)
    time.sleep(3.0)
    with pytest.raises(StudyConflictError):
        Lease(engine, "s", lease_s=2.0)
    first._done.set()  # the driver hangs: nothing renews
    first._thread.join()
    time.sleep(2.5)
    second = Lease(engine, "s", lease_s=2.0)
    first._renew()
    with pytest.raises(StudyConflictError, match="was taken over by"):
        first.check()
    first.release()
    second.check()
    second.release()


def test_a_killed_drivers_study_is_taken_over_at_once(cimopt, postgres):
    url = postgres.url("lease")
    arguments = ("search", "space=rram", *QUIET, f"study.storage={url}", "study.name=one", "hydra.run.dir=a")
    process = subprocess.Popen(
        [sys.executable, "-m", "cimopt.cli", *arguments], cwd=cimopt.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )  # fmt: skip
    storage = PatientStorage(driver_url(url, ""))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(storage.count(s._study_id) for s in storage.get_all_studies()):
        time.sleep(0.02)
    process.send_signal(signal.SIGSTOP)  # it lives and holds its lease, but does not end while the second starts
    assert process.poll() is None
    second = cimopt(*arguments[:-1], "hydra.run.dir=b")
    assert second.returncode == 2
    assert "is in use by the cimopt process" in second.stderr, second.stderr
    process.kill()
    process.wait()
    done = cimopt(*arguments)
    assert done.returncode == 0, done.stderr
    assert cimopt.result("a")["n_evaluated"] == 2100
    assert json.dumps(cimopt.result("a")).count("secret") == 0
