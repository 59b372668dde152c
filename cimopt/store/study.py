"""The study as it is stored: an Optuna study in the run folder's journal, or in a shared store.

One driver writes. A trial holds its genes as parameters, its value, its constraint amounts, and as
user attributes the decoded design, the metrics and the reason; so a killed run continues from
its trials alone.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import IntDistribution
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from cimopt.config.assemble import Rooms, is_slow
from cimopt.config.schema import differences
from cimopt.errors import CimoptError, InputError, StudyConflictError, masked
from cimopt.evaluators.wrappers import limits_from, limits_of
from cimopt.scores.objectives import Scores
from cimopt.store.journal import RunJournal
from cimopt.store.ledger import Batch
from cimopt.store.urls import created_once, driver_url, first_line, is_away, patiently, refuse_unsafe_sqlite
from cimopt.types import Metrics

IDENTITY = "cimopt"
JOURNAL = "study.journal"
NUMBER = "number"
OPENING_S = 30.0  # how long a store that does not answer is waited for at the start


class FolderLock:
    """One driver per run folder; the system frees the lock when the driver dies."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / ".driver.lock").open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise StudyConflictError(
                f"run folder {folder} is in use by another cimopt process; wait or choose another"
            ) from None

    def release(self) -> None:
        self._file.close()


class StoredStudy:
    """Opens or creates the study and turns batches into trials and back."""

    def __init__(self, rooms: Rooms, sampler: BaseSampler, folder: Path | None) -> None:
        """`folder` None keeps the study in memory (for benchmarks)."""
        self._rooms = rooms
        self._keeps_limits = is_slow(rooms.chain)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._journal: RunJournal | None = None
        self._shared: Any = None
        self._lease: Any = None
        self.study = self._open(sampler, folder)
        try:
            self._check_identity()
        except CimoptError:
            self.close()
            raise
        self._distributions = {
            n: IntDistribution(0, int(k) - 1) for n, k in zip(rooms.space.names, rooms.space.n_choices, strict=True)
        }

    def _open(self, sampler: BaseSampler, folder: Path | None) -> optuna.Study:
        config, goals = self._rooms.config.study, len(self._rooms.objective.goals)
        if config.storage is not None and folder is not None:
            self.name = config.name or f"{self._rooms.config.label}-{self._rooms.identity_hash[:8]}"
            self._shared, study, self._lease = _open_shared(self.name, config.storage, sampler, goals)
            return study
        if folder is None:
            self.name, storage = "study", InMemoryStorage()
        else:
            self._journal = RunJournal(folder / JOURNAL)
            self.name, storage = config.name or "study", JournalStorage(self._journal)
        return _create(self.name, storage, sampler, goals)

    def close(self) -> None:
        """Give a shared store's lease back."""
        if self._lease is not None:
            self._lease.release()

    def _check_identity(self) -> None:
        known = self.study.user_attrs.get(IDENTITY)
        if known is None:
            self.study.set_user_attr(IDENTITY, self._rooms.identity)
            return
        changed = differences(known, self._rooms.identity)
        if changed:
            shown = "; ".join(changed[:5]) + (f"; and {len(changed) - 5} more" if len(changed) > 5 else "")
            raise StudyConflictError(
                f"this run folder (or store) holds study '{self.name}' with other settings: {shown}. "
                "Use a new folder or study.name, or the old settings"
            )

    # ------------------------------------------------------------- notes
    def note(self, key: str, value: Any) -> None:
        self.study.set_user_attr(key, value)

    def noted(self, key: str) -> Any:
        return self.study.user_attrs.get(key)

    def holds_trials(self) -> bool:
        return bool(self.study.get_trials(deepcopy=False))

    # ------------------------------------------------------------ writing
    def add(self, batch: Batch) -> None:
        """Write finished designs in one go (fast evaluators); numbers must continue the study's."""
        trials = self._frozen(batch)
        if self._shared is not None:
            self._lease.check()
            self._shared.insert(self.study._study_id, int(batch.number[0]), trials)
        else:
            with self._together():
                self.study.add_trials(trials)

    def _together(self) -> AbstractContextManager[None]:
        """One flush to disk for everything written inside, where the store is the run folder's journal."""
        if self._journal is None:
            return nullcontext()
        return self._journal.together(self.study._storage._replay_result.log_number_read)

    def add_best(self, batch: Batch) -> None:
        """Designs of a compact study (study.store): trials are numbered anew, the design's number is an attribute."""
        if self._lease is not None:
            self._lease.check()
        with self._together():
            for number, trial in zip(batch.number.tolist(), self._frozen(batch), strict=True):
                trial.set_user_attr(NUMBER, number)
                self.study.add_trial(trial)

    def _frozen(self, batch: Batch) -> list[FrozenTrial]:
        names, failed = self._rooms.space.names, batch.scores.errors.tolist()
        genes, values, attributes = batch.genes.tolist(), batch.scores.values.tolist(), self._attributes(batch)
        return [
            create_trial(
                state=TrialState.FAIL if failed[i] else TrialState.COMPLETE,
                values=None if failed[i] else values[i],
                params=dict(zip(names, genes[i], strict=True)),
                distributions=self._distributions,
                user_attrs=attributes[i],
                constraints=None if failed[i] else _amounts(batch.scores, i),
            )
            for i in range(len(genes))
        ]

    def _attributes(self, batch: Batch) -> list[dict[str, Any]]:
        """Per design; columns are decoded once for all of them."""
        designs, metrics = self._rooms.space.designs(batch.genes), batch.metrics
        decoded = {name: designs[name].tolist() for name in designs.parameters.all_names}
        values, ok = {k: v.tolist() for k, v in metrics.values.items()}, metrics.ok.tolist()
        listed: list[dict[str, Any]] = []
        for i in range(len(ok)):
            attributes: dict[str, Any] = {"design": {name: column[i] for name, column in decoded.items()}}
            if ok[i]:
                attributes["metrics"] = {k: column[i] for k, column in values.items()}
            else:
                attributes["reason"] = metrics.reasons[metrics.reason[i]]
            # A fast model is asked again for its limits when results are shown; a slow one is not.
            if self._keeps_limits and (limits := limits_of(metrics, i)):
                attributes["limits"] = limits
            listed.append(attributes)
        return listed

    def ask(self, n: int) -> list[Trial]:
        with self._together():
            return [self.study.ask(self._distributions) for _ in range(n)]

    @property
    def is_shared(self) -> bool:
        return self._shared is not None

    def ask_for(self, genes: np.ndarray, first: int) -> list[Trial]:
        """Trials `first`, `first + 1`, ... of known genes in a shared store, in one write.

        One by one, each trial costs a database more the more are open: minutes for a start generation.
        """
        self._lease.check()
        names = self._rooms.space.names
        trials = [
            create_trial(
                state=TrialState.RUNNING, params=dict(zip(names, row, strict=True)), distributions=self._distributions
            )
            for row in genes.tolist()
        ]  # fmt: skip
        self._shared.insert(self.study._study_id, first, trials)
        return self.running()

    def running(self) -> list[Trial]:
        """Trials a dead driver left unfinished: they keep their number and are evaluated again."""
        states = (TrialState.RUNNING,)
        trials = [Trial(self.study, t._trial_id) for t in self.study.get_trials(deepcopy=False, states=states)]
        for trial in trials:  # a trial killed while being asked gets the rest of its parameters
            for name, distribution in self._distributions.items():
                trial.suggest_int(name, distribution.low, distribution.high)
        return trials

    def genes_of(self, trials: Sequence[Trial]) -> np.ndarray:
        """int (n, n_genes)"""
        rows = [[trial.params[name] for name in self._rooms.space.names] for trial in trials]
        return np.array(rows, dtype=np.int64).reshape(len(rows), self._rooms.space.n_genes)

    def tell_all(self, trials: Sequence[Trial], batch: Batch) -> None:
        """Finish asked trials whose sampler learns from the store alone, with one write."""
        if self._shared is None:
            with self._together():
                for i, trial in enumerate(trials):
                    self.tell(trial, batch, i)
            return
        self._lease.check()
        self._shared.finish([trial._trial_id for trial in trials], self._frozen(batch))

    def tell(self, trial: Trial, batch: Batch, i: int) -> None:
        """Finish one asked trial (slow evaluators, other samplers)."""
        if self._lease is not None:
            self._lease.check()
        with self._together():
            for key, value in self._attributes(batch.take(np.array([i])))[0].items():
                trial.set_user_attr(key, value)
            if batch.scores.errors[i]:
                self.study.tell(trial, state=TrialState.FAIL)
                return
            for key, amount in _amounts(batch.scores, i).items():
                trial.set_constraint(key, amount)
            self.study.tell(trial, batch.scores.values[i].tolist())

    # ------------------------------------------------------------ reading
    def finished(self) -> Batch | None:
        """Everything the study already holds, in trial order; None when nothing is finished."""
        done = (TrialState.COMPLETE, TrialState.FAIL)
        trials = [t for t in self.study.get_trials(deepcopy=False) if t.state in done and t.params]
        # A compact study may hold a design twice: its step was cut off, and done again on resume.
        trials = list({_number(t): t for t in trials}.values())
        if not trials:
            return None
        genes = np.array([[t.params[name] for name in self._rooms.space.names] for t in trials], dtype=np.int64)
        metrics = Metrics.concat([self._metrics(t) for t in trials])
        none = [np.inf] * len(self._rooms.objective.goals)
        values = np.array([t.values if t.state == TrialState.COMPLETE else none for t in trials])
        errors = np.array([t.state == TrialState.FAIL for t in trials])
        scores = Scores(values, dict(metrics.violations), errors)
        return Batch(np.array([_number(t) for t in trials]), genes.reshape(len(trials), -1), metrics, scores)

    def _metrics(self, trial: FrozenTrial) -> Metrics:
        values = {k: np.array([v], dtype=float) for k, v in trial.user_attrs.get("metrics", {}).items()}
        reason = trial.user_attrs.get("reason", "") or ("" if values else "interrupted")
        return Metrics(
            values,
            tuple(w.name for w in self._rooms.workloads),
            np.array([1 if reason else 0], dtype=np.int16),
            ("ok", reason) if reason else ("ok",),
            {k: np.array([v]) for k, v in trial.constraints.items()},
            limits_from(trial.user_attrs.get("limits", {})),
        )


def _amounts(scores: Scores, i: int) -> dict[str, float]:
    """Every trial carries a constraint, or Optuna would count a design without any as feasible."""
    amounts = {name: float(values[i]) for name, values in scores.violations.items()}
    if not np.isfinite(scores.values[i]).all() and not any(a > 0 for a in amounts.values()):
        amounts["no_metrics"] = 1.0
    return amounts or {"none": 0.0}


def _number(trial: FrozenTrial) -> int:
    return trial.user_attrs.get(NUMBER, trial.number)


def _create(name: str, storage: Any, sampler: BaseSampler, n_goals: int) -> optuna.Study:
    return optuna.create_study(
        study_name=name, storage=storage, sampler=sampler, directions=["minimize"] * n_goals, load_if_exists=True
    )


def _open_shared(name: str, given: str, sampler: BaseSampler, n_goals: int) -> tuple[Any, optuna.Study, Any]:
    """A database's storage, the study in it and the lease on it; tables are made by one process at a time."""
    from cimopt.store.database import Lease, PatientStorage

    url = driver_url(given, "study.storage")
    refuse_unsafe_sqlite(url, "study.storage", many_writers=False)

    def attempt() -> tuple[Any, optuna.Study, Any]:
        with created_once(url):
            storage = PatientStorage(url)
            lease = Lease(storage.engine, name)
        try:
            return storage, _create(name, storage, sampler, n_goals), lease
        except BaseException:
            lease.release()
            raise

    until = time.monotonic() + OPENING_S
    try:
        return patiently(
            attempt, what=f"study.storage={masked(given)}", passing=lambda e: time.monotonic() < until and is_away(e)
        )
    except CimoptError:
        raise
    except Exception as error:  # drivers raise their own kinds; a person needs the URL's key and the cause
        raise InputError(
            f"study.storage={masked(given)} cannot be opened: {type(error).__name__}: {first_line(error)}"
        ) from None
