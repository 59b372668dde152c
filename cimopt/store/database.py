"""The study in a database: bulk writes, a store that may go away for a while, and a lease on the study.

Everything that touches Optuna's private storage classes is here (optuna<6 is pinned for it).
"""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.orm import Session

from cimopt.errors import StudyConflictError, masked
from cimopt.store.urls import is_away, patiently

# A driver renews three times within this time; after it, another may take the study over.
LEASE_S = 60.0
LEASES = sa.Table(
    "cimopt_leases", sa.MetaData(),
    sa.Column("study", sa.String(512), primary_key=True), sa.Column("owner", sa.String(256), nullable=False),
    sa.Column("until", sa.Float(53), nullable=False),
)  # fmt: skip


def _passing(error: Exception) -> bool:
    return isinstance(error, StorageInternalError | sa.exc.SQLAlchemyError) and is_away(error)


def _patient(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, waiting for a store that is away. Only for calls that may be repeated."""

    @functools.wraps(method)
    def waiting(self: RDBStorage, *arguments: Any, **named: Any) -> Any:
        return patiently(
            lambda: method(self, *arguments, **named), what=f"study store {masked(self.url)}", passing=_passing
        )

    return waiting


class PatientStorage(RDBStorage):
    """Optuna's database storage; reads and repeatable writes wait for a store that went away."""

    def __init__(self, url: str) -> None:
        # A pooled connection that the server has dropped is replaced before it is used.
        super().__init__(url, engine_kwargs={"pool_pre_ping": True} if not url.startswith("sqlite") else None)

    set_study_user_attr = _patient(RDBStorage.set_study_user_attr)
    set_study_system_attr = _patient(RDBStorage.set_study_system_attr)
    get_study_id_from_name = _patient(RDBStorage.get_study_id_from_name)
    get_study_user_attrs = _patient(RDBStorage.get_study_user_attrs)
    get_study_system_attrs = _patient(RDBStorage.get_study_system_attrs)
    get_study_directions = _patient(RDBStorage.get_study_directions)
    get_trial = _patient(RDBStorage.get_trial)
    _get_trials = _patient(RDBStorage._get_trials)
    _set_trial_param = _patient(RDBStorage._set_trial_param)
    set_trial_user_attr = _patient(RDBStorage.set_trial_user_attr)
    set_trial_system_attr = _patient(RDBStorage.set_trial_system_attr)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:  # fmt: skip
        """A finish whose answer was lost with the connection counts as done when the store holds it."""

        def finish() -> bool:
            try:
                return RDBStorage.set_trial_state_values(self, trial_id, state, values)
            except UpdateFinishedTrialError:
                held = RDBStorage.get_trial(self, trial_id)
                if held.state == state and (values is None or held.values == list(values)):
                    return True
                raise

        return patiently(finish, what=f"study store {masked(self.url)}", passing=_passing)

    def _create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> FrozenTrial:
        """One driver writes, so a trial beyond the count before the first try is the one just made."""
        before = patiently(lambda: self.count(study_id), what=f"study store {masked(self.url)}", passing=_passing)

        def create() -> FrozenTrial:
            if self.count(study_id) > before:
                return RDBStorage.get_trial(self, self.get_trial_id_from_study_id_trial_number(study_id, before))
            return RDBStorage._create_new_trial(self, study_id, template_trial)

        return patiently(create, what=f"study store {masked(self.url)}", passing=_passing)

    def count(self, study_id: int) -> int:
        """Trials of the study."""
        with self.engine.connect() as connection:
            query = sa.select(sa.func.count()).where(models.TrialModel.study_id == study_id)
            return int(connection.execute(query).scalar_one())

    def insert(self, study_id: int, first: int, trials: Sequence[FrozenTrial]) -> None:
        """Finished trials `first`, `first + 1`, ... in one transaction: all of them or none."""
        patiently(
            lambda: self._insert(study_id, first, trials), what=f"study store {masked(self.url)}", passing=_passing
        )

    def _insert(self, study_id: int, first: int, trials: Sequence[FrozenTrial]) -> None:
        with Session(self.engine) as session, session.begin():
            models.StudyModel.find_or_raise_by_id(study_id, session, for_update=True)
            held = session.query(models.TrialModel).filter_by(study_id=study_id).count()
            if held == first + len(trials):
                return  # the answer to an earlier try was lost on its way
            if held != first:
                raise StudyConflictError(
                    f"the store holds {held} designs of this study where this driver knows {first}: "
                    "another driver has written to it. Run again to continue from what is stored"
                )
            rows = [_trial_row(study_id, first + i, trial) for i, trial in enumerate(trials)]
            session.add_all(rows)
            session.flush()
            for table, parts in _parts([row.trial_id for row in rows], trials).items():
                if parts:
                    session.execute(sa.insert(table), parts)

    def finish(self, ids: Sequence[int], trials: Sequence[FrozenTrial]) -> None:
        """What running trials got, in one transaction: all of it or nothing. What is finished already stays as it is."""
        patiently(lambda: self._finish(ids, trials), what=f"study store {masked(self.url)}", passing=_passing)

    def _finish(self, ids: Sequence[int], trials: Sequence[FrozenTrial]) -> None:
        with Session(self.engine) as session, session.begin():
            rows = session.query(models.TrialModel).filter(models.TrialModel.trial_id.in_(ids)).with_for_update().all()
            running = {row.trial_id: row for row in rows if not row.state.is_finished()}
            told = {i: trial for i, trial in zip(ids, trials, strict=True) if i in running}
            for trial_id, trial in told.items():
                running[trial_id].state = trial.state
                running[trial_id].datetime_complete = trial.datetime_complete
            for table, parts in _parts(list(told), list(told.values())).items():
                if not parts or table is models.TrialParamModel:  # parameters were written when it was asked
                    continue
                if "key" in parts[0]:  # a driver killed in the middle of telling may have left some
                    again = table.trial_id.in_(list(told)) & table.key.in_({part["key"] for part in parts})
                    session.execute(sa.delete(table).where(again))
                session.execute(sa.insert(table), parts)


def _trial_row(study_id: int, number: int, trial: FrozenTrial) -> Any:
    return models.TrialModel(
        study_id=study_id, number=number, state=trial.state, datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete,
    )  # fmt: skip


def _parts(ids: Sequence[int], trials: Sequence[FrozenTrial]) -> dict[Any, list[dict[str, Any]]]:
    """Rows of the tables that hang on a trial."""
    from optuna.distributions import distribution_to_json

    params, values, user, system = [], [], [], []
    for trial_id, trial in zip(ids, trials, strict=True):
        for name, value in trial.params.items():
            kind = trial.distributions[name]
            params.append(
                {"trial_id": trial_id, "param_name": name, "param_value": kind.to_internal_repr(value), "distribution_json": distribution_to_json(kind)}
            )  # fmt: skip
        for objective, value in enumerate(trial.values or ()):
            stored, kind = models.TrialValueModel.value_to_stored_repr(value)
            values.append({"trial_id": trial_id, "objective": objective, "value": stored, "value_type": kind})
        user += _attributes(trial_id, trial.user_attrs)
        system += _attributes(trial_id, trial.system_attrs)
    return {
        models.TrialParamModel: params, models.TrialValueModel: values,
        models.TrialUserAttributeModel: user, models.TrialSystemAttributeModel: system,
    }  # fmt: skip


def _attributes(trial_id: int, attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"trial_id": trial_id, "key": k, "value_json": json.dumps(v)} for k, v in attributes.items()]


class Lease:
    """Ownership of one study in a shared store, renewed by a thread until `release`.

    Another driver is refused while the lease holds; it takes over when the owner has not renewed for
    LEASE_S, or at once when the owner was a process of this machine that no longer exists.
    """

    def __init__(self, engine: sa.Engine, study: str, lease_s: float = LEASE_S) -> None:
        self._engine, self._study, self._lease_s = engine, study, lease_s
        self.owner = f"{socket.gethostname()}|{os.getpid()}|{_birth(os.getpid())}|{uuid.uuid4().hex[:8]}"
        self._lost: str | None = None
        self._done = threading.Event()
        LEASES.metadata.create_all(engine)
        self._acquire()
        self._thread = threading.Thread(target=self._renew_in_time, name="cimopt-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """StudyConflictError when another driver has taken the study over."""
        if self._lost is not None:
            raise StudyConflictError(f"study '{self._study}' was taken over by {_shown(self._lost)}; this driver stops")

    def release(self) -> None:
        """Free the study; an absent store only makes the next driver wait."""
        self._done.set()
        self._thread.join(timeout=5)
        try:
            with self._engine.begin() as connection:
                mine = (LEASES.c.study == self._study) & (LEASES.c.owner == self.owner)
                connection.execute(sa.delete(LEASES).where(mine))
        except sa.exc.SQLAlchemyError:
            pass

    def _acquire(self) -> None:
        with self._engine.begin() as connection:
            now = _now(connection)
            row = connection.execute(sa.select(LEASES).where(LEASES.c.study == self._study)).one_or_none()
            if row is None:
                self._insert(connection, now)
                return
            if row.until > now and not _is_dead_here(row.owner):
                raise StudyConflictError(
                    f"study '{self._study}' is in use by {_shown(row.owner)}; wait for it, or choose another study.name "
                    f"(if that driver died, its lease ends in {row.until - now:.0f} s)"
                )
            same = (LEASES.c.study == self._study) & (LEASES.c.owner == row.owner) & (LEASES.c.until == row.until)
            taken = connection.execute(
                sa.update(LEASES).where(same).values(owner=self.owner, until=now + self._lease_s)
            )
            if taken.rowcount != 1:
                raise StudyConflictError(f"study '{self._study}' was taken by another driver at this moment")

    def _insert(self, connection: sa.Connection, now: float) -> None:
        try:
            connection.execute(sa.insert(LEASES).values(study=self._study, owner=self.owner, until=now + self._lease_s))
        except sa.exc.IntegrityError:
            raise StudyConflictError(f"study '{self._study}' was taken by another driver at this moment") from None

    def _renew_in_time(self) -> None:
        while not self._done.wait(self._lease_s / 3):
            try:
                self._renew()
            except sa.exc.SQLAlchemyError:
                continue  # the store is away: nobody else can take the study either
            if self._lost is not None:
                return

    def _renew(self) -> None:
        """Also after the time has run out, as long as nobody took over."""
        with self._engine.begin() as connection:
            mine = (LEASES.c.study == self._study) & (LEASES.c.owner == self.owner)
            until = _now(connection) + self._lease_s
            if connection.execute(sa.update(LEASES).where(mine).values(until=until)).rowcount != 1:
                held = connection.execute(sa.select(LEASES.c.owner).where(LEASES.c.study == self._study))
                self._lost = held.scalar_one_or_none() or "nobody|0|0|0"


def _now(connection: sa.Connection) -> float:
    """The database's clock: drivers' clocks may differ by more than a lease."""
    if connection.dialect.name == "postgresql":
        return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return time.time()


def _birth(pid: int) -> str:
    """When a process started (clock ticks since boot), so that a reused number is no living owner."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _is_dead_here(owner: str) -> bool:
    host, pid, birth, _ = owner.split("|")
    return host == socket.gethostname() and Path("/proc/self/stat").exists() and _birth(int(pid)) != birth


def _shown(owner: str) -> str:
    host, pid, *_ = owner.split("|")
    return f"the cimopt process {pid} on {host}"
