"""MLflow: one run per study, logged by the driver alone.

Tracking never stops a search: a store that fails is reported once and the run folder still holds
everything. MLflow is imported when used (about three seconds), through its client with explicit
run ids, so that studies in threads and resumed studies never meet each other's active run.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import platform
import re
import shutil
import subprocess
import time
import warnings
from abc import ABC
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cimopt.errors import MissingExtraError, masked
from cimopt.store.urls import created_once, driver_url, network_file_system
from cimopt.types import fingerprint

PARENT = ".mlflow_parent"  # in a sweep's folder
MAX_PARAM = 500  # MLflow's shortest limit for a parameter value
# A store that went away during the run has this long to come back at its end.
WAIT_AT_END_S = 60.0
MAX_BATCH = 100  # parameters or tags per request
NAME = re.compile(r"[^\w\-./ ]")
# A view of the MLflow UI kept with the experiment: .../#/experiments/<id>/runs?viewStateShareKey=cimopt
VIEW, VIEW_TAG = "cimopt", "mlflow.sharedViewState.cimopt"
CURVES = ("gen/best", "gen/feasible_share", "gen/diversity", "gen/hypervolume")
COLUMNS = ("cimopt.objective", "cimopt.sampler", "cimopt.seed", "cimopt.space", "cimopt.workload")


class Tracker(ABC):
    """What a study tells a tracking store. The base class tracks nothing."""

    def start(
        self, name: str, params: Mapping[str, Any], tags: Mapping[str, str], run_id: str | None, sweep: Path | None = None
    ) -> str | None:  # fmt: skip
        """Begin or continue a run, beneath the one of its sweep's folder if it has one; returns its id."""
        return None

    def metrics(self, values: Mapping[str, float | None], step: int | None = None) -> None:
        """Numbers of one step; what is None or not finite is left out and named in a tag."""

    def finish(self, status: str, artifacts: Sequence[Path], note: str) -> None:
        """End the run with its files."""

    def child(self, name: str, params: Mapping[str, Any], metrics: Mapping[str, float | None]) -> None:
        """One of the best designs, as a nested run."""


class NoTracker(Tracker):
    """tracking=none"""


def safe_name(name: str) -> str:
    """A name MLflow accepts; different names stay different."""
    clean = NAME.sub("_", name)
    return clean if clean == name else f"{clean}.{fingerprint(name)[:6]}"


def comparison_view() -> str:
    """The studies without their nested runs, what they differ in as columns, their curves as charts; as the UI keeps it."""
    charts = [
        {
            "type": "LINE", "uuid": key, "metricSectionId": VIEW, "metricKey": key, "selectedMetricKeys": [key], "xAxisKey": "step",
            "runsCountToCompare": 100, "lineSmoothness": 0, "scaleType": "linear", "deleted": False, "isGenerated": False,
        }
        for key in CURVES
    ]  # fmt: skip
    view = {
        "searchFilter": "tags.`cimopt.seed` != ''",
        "orderByKey": "tags.`cimopt.objective`", "orderByAsc": True, "lifecycleFilter": "Active",
        "selectedColumns": ["metrics.`best_score`", *(f"tags.`{name}`" for name in COLUMNS)],
        "compareRunCharts": charts,
        "compareRunSections": [{"uuid": VIEW, "name": "Curves per generation", "display": True, "isReordered": False}],
        "isAccordionReordered": False,
    }  # fmt: skip
    return json.dumps(view)


def system_tags() -> dict[str, str]:
    """Where a run is made: machine, Python, and the commit when cimopt runs from a checkout."""
    tags = {
        "cimopt.system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "cimopt.version.python": platform.python_version(),
    }
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.returncode == 0:
            tags["cimopt.version.commit"] = told.stdout.strip()
    return tags


def flatten(section: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys as dotted ones; lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in section.items():
        label = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, label)
        else:
            flat[label] = value
    return flat


class MlflowTracker(Tracker):
    """Logs to one MLflow store.

    What a store that is away does not take is kept in order and sent when it is back, or given up after
    WAIT_AT_END_S at the end. The first failure warns, later ones are silent; none stops the search.
    """

    def __init__(self, uri: str, experiment: str, artifact_folder: Path | None = None) -> None:
        # MLflow's usage statistics go out to the network; a tool must not do that unasked.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            import mlflow
        except ImportError as error:
            raise MissingExtraError("tracking=mlflow", "mlflow") from error
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
        for noisy in ("mlflow", "alembic"):  # table creation is no news to a person
            logging.getLogger(noisy).setLevel(logging.WARNING)
        # A server that is away is found out soon: the search waits while MLflow's client tries.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        self._mlflow, self._uri, self._experiment = mlflow, driver_url(uri, "tracking.uri"), experiment
        # A database would put artifacts under the current folder; a server decides for itself.
        own = artifact_folder and not uri.startswith(("http:", "https:"))
        self._artifacts = artifact_folder.as_uri() if own else None
        self._unsent: deque[Callable[[], Any]] = deque()
        self._client: Any = None
        self._run_id: str | None = None
        self._warned = False
        self._left_out: set[str] = set()
        self._long: dict[str, str] = {}

    def _guarded(self, action: Callable[[], Any]) -> None:
        """Send what is unsent, then this; what fails because the store is away stays for the next call."""
        self._unsent.append(action)
        while self._unsent:
            try:
                self._unsent[0]()
            except Exception as error:  # any store failure: the search matters more than its log
                self._warn(error)
                if not self._is_refusal(error):
                    return
            self._unsent.popleft()

    def _warn(self, error: Exception) -> None:
        if self._warned:
            return
        self._warned = True
        reason = masked(" ".join(str(error).split()))[:200]
        warnings.warn(
            f"MLflow store {masked(self._uri)} failed; the search goes on without it ({reason})", stacklevel=2
        )

    def _is_refusal(self, error: Exception) -> bool:
        """Whether the store is there and does not want this call: trying again is no use."""
        code = getattr(error, "error_code", None)
        return code in ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "INVALID_STATE", "BAD_REQUEST")

    def start(
        self, name: str, params: Mapping[str, Any], tags: Mapping[str, str], run_id: str | None, sweep: Path | None = None
    ) -> str | None:  # fmt: skip
        def begin() -> None:
            # The first contact makes a database's tables: one process at a time, or they meet in it.
            with created_once(self._uri):
                self._client = self._mlflow.MlflowClient(tracking_uri=self._uri)
                known = run_id is not None and self._known(run_id)
                if not known and self._run_id is None:
                    self._run_id = self._create(name, tags, sweep)
            if known:
                self._run_id = run_id
                self._client.update_run(run_id, status="RUNNING")
            else:
                self._log_params(self._run_id, params)

        self._guarded(begin)
        return self._run_id

    def _known(self, run_id: str) -> bool:
        try:
            self._client.get_run(run_id)
        except self._mlflow.exceptions.MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return False
        return True

    def _create(self, name: str, tags: Mapping[str, str], sweep: Path | None) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = found.experiment_id if found else self._new_experiment()
        if found and VIEW_TAG not in found.tags:  # made by hand, or by an earlier version
            self._client.set_experiment_tag(experiment, VIEW_TAG, comparison_view())
        named = {safe_name(k): str(v)[:5000] for k, v in {**system_tags(), **tags}.items()}
        if sweep is not None:
            named["mlflow.parentRunId"] = self._sweeps_run(experiment, sweep)
        return self._client.create_run(experiment, run_name=name, tags=named).info.run_id

    def _sweeps_run(self, experiment: str, sweep: Path) -> str:
        """The run above a sweep's studies: the job that comes first makes it and leaves its id in the sweep's folder."""
        sweep.mkdir(parents=True, exist_ok=True)
        with (sweep / PARENT).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known = file.read().strip()
            if known and self._known(known):
                return known
            made = self._client.create_run(experiment, run_name=sweep.name, tags={"cimopt.parent_of_sweep": sweep.name})
            self._client.set_terminated(made.info.run_id)  # it only holds the others
            file.truncate(0)
            file.write(made.info.run_id)
        return made.info.run_id

    def _new_experiment(self) -> str:
        try:
            return self._client.create_experiment(self._experiment, self._artifacts, {VIEW_TAG: comparison_view()})
        except self._mlflow.exceptions.MlflowException:  # another driver was quicker
            found = self._client.get_experiment_by_name(self._experiment)
            if found is None:
                raise
            return found.experiment_id

    def _log_params(self, run_id: str, params: Mapping[str, Any]) -> None:
        entities = self._mlflow.entities
        listed = []
        for key, value in flatten(params).items():
            text = str(value)
            if len(text) > MAX_PARAM:  # kept whole in an artifact, its hash in the parameter
                self._long[key] = text
                text = f"see long_params.json, sha256 {fingerprint(text)}"
            listed.append(entities.Param(safe_name(key), text))
        for k in range(0, len(listed), MAX_BATCH):
            self._client.log_batch(run_id, params=listed[k : k + MAX_BATCH])

    def metrics(self, values: Mapping[str, float | None], step: int | None = None) -> None:
        now = int(time.time() * 1000)
        self._guarded(lambda: self._log_metrics(self._run_id, values, step, now))

    def _log_metrics(self, run_id: str, values: Mapping[str, float | None], step: int | None, now: int) -> None:
        finite = {k: v for k, v in values.items() if v is not None and math.isfinite(v)}
        self._left_out |= set(values) - set(finite)
        listed = [self._mlflow.entities.Metric(safe_name(k), float(v), now, step or 0) for k, v in finite.items()]
        for k in range(0, len(listed), 10 * MAX_BATCH):
            self._client.log_batch(run_id, metrics=listed[k : k + 10 * MAX_BATCH])

    def child(self, name: str, params: Mapping[str, Any], metrics: Mapping[str, float | None]) -> None:
        now = int(time.time() * 1000)

        def log() -> None:
            experiment = self._client.get_run(self._run_id).info.experiment_id
            run = self._client.create_run(experiment, run_name=name, tags={"mlflow.parentRunId": self._run_id})
            self._log_params(run.info.run_id, params)
            self._log_metrics(run.info.run_id, metrics, None, now)
            self._client.set_terminated(run.info.run_id)

        self._guarded(log)

    def finish(self, status: str, artifacts: Sequence[Path], note: str) -> None:
        def end() -> None:
            for path in artifacts:
                self._client.log_artifact(self._run_id, str(path))
            if self._long:
                self._client.log_dict(self._run_id, self._long, "long_params.json")
            if self._left_out:
                self._client.set_tag(self._run_id, "nonfinite", ",".join(sorted(self._left_out))[:5000])
            self._client.set_tag(self._run_id, "mlflow.note.content", note)
            self._client.set_terminated(self._run_id, status)

        self._guarded(end)
        until = time.monotonic() + WAIT_AT_END_S
        while self._unsent and self._run_id is not None and time.monotonic() < until:
            time.sleep(1.0)
            self._guarded(lambda: None)


def default_uri(launch_folder: Path) -> str:
    """One store for everything launched from a folder, a sweep's jobs included."""
    folder = launch_folder / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'mlflow.db'}"


def make_tracker(name: str, uri: str | None, experiment: str, launch_folder: Path) -> Tracker:
    """The configured tracker; without MLflow installed the search runs untracked and says so once."""
    if name == "none":
        return NoTracker()
    kind = network_file_system(launch_folder) if uri is None else None
    if kind is not None:
        warnings.warn(
            f"this run is not tracked: MLflow's SQLite file would be on a network file system ({kind}); "
            "set tracking.uri=postgresql://user@host/database or an MLflow server, or choose tracking=none",
            stacklevel=2,
        )
        return NoTracker()
    try:
        return MlflowTracker(uri or default_uri(launch_folder), experiment, launch_folder / "runs" / "mlartifacts")
    except MissingExtraError as error:
        warnings.warn(f"this run is not tracked: {error}, or choose tracking=none", stacklevel=2)
        return NoTracker()
