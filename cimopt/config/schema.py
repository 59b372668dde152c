"""The composed configuration, typed and checked whole before the first evaluation.

Hydra composes plain values; this room turns them into frozen records and refuses unknown keys with
the nearest right one. Sections that belong to a room or a plug-in (space, evaluator, objective,
sampler.settings) stay plain here and are checked by their owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from cimopt.errors import InputError, unknown_name
from cimopt.types import fingerprint

RUNNERS = ("auto", "serial", "ray")
TRACKERS = ("mlflow", "none")
CACHES = ("auto", "on", "off")
STORES = ("full", "generation", "best")


def _one_of(key: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise unknown_name(key, value, allowed)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _whole(key: str, value: Any, low: int, *, optional: bool = False) -> None:
    if optional and value is None:
        return
    if type(value) is not int or value < low:
        raise InputError(f"{key}={value!r} must be a whole number >= {low}" + (", or null" if optional else ""))


@dataclass(frozen=True)
class RunnerConfig:
    """Where evaluations run; see conf/runner/*.yaml."""

    name: str = "auto"
    workers: int | None = None
    address: str | None = None
    chunk: int | None = None
    max_retries: int = 1
    timeout_s: float | None = None
    reissue_factor: float | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    memory: int | None = None
    cache: str = "auto"

    def __post_init__(self) -> None:
        _one_of("runner.name", self.name, RUNNERS)
        _one_of("runner.cache", self.cache, CACHES)
        for key, low in (("workers", 1), ("chunk", 1), ("max_retries", 0)):
            _whole(f"runner.{key}", getattr(self, key), low, optional=key != "max_retries")
        if self.timeout_s is not None and not _positive(self.timeout_s):
            raise InputError(f"runner.timeout_s={self.timeout_s!r} must be a number of seconds > 0, or null")
        factor = self.reissue_factor
        if factor is not None and not (_positive(factor) and factor >= 1):
            raise InputError(f"runner.reissue_factor={factor!r} must be a number >= 1, or null")


@dataclass(frozen=True)
class TrackingConfig:
    """Where results are tracked; see conf/tracking/*.yaml."""

    name: str = "mlflow"
    uri: str | None = None
    experiment: str = "cimopt"
    tags: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _one_of("tracking.name", self.name, TRACKERS)


@dataclass(frozen=True)
class StudyConfig:
    """The study's name, its store, and how much of every design it keeps."""

    name: str | None = None
    storage: str | None = None
    store: str = "full"

    def __post_init__(self) -> None:
        _one_of("study.store", self.store, STORES)


@dataclass(frozen=True)
class ReportConfig:
    """How much is reported."""

    top: int = 5
    plots: bool = True

    def __post_init__(self) -> None:
        _whole("report.top", self.top, 1)


@dataclass(frozen=True)
class SamplerConfig:
    """A sampler by entry-point name (`kind`), with its own settings."""

    name: str
    kind: str
    stop_after: int | None = None
    early_stop: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _whole("sampler.stop_after", self.stop_after, 0, optional=True)
        _whole("sampler.early_stop", self.early_stop, 1, optional=True)


@dataclass(frozen=True)
class SearchConfig:
    """All parameters jointly, or level after level; see conf/search/*.yaml."""

    name: str = "joint"
    start: str = "largest"
    start_values: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[str, ...] = ("device", "circuit", "architecture", "system", "network")

    def __post_init__(self) -> None:
        _one_of("search.name", self.name, ("joint", "sequential"))
        _one_of("search.start", self.start, ("largest", "median"))


@dataclass(frozen=True)
class Config:
    """Everything one study needs."""

    space: Mapping[str, Any]
    workload: Mapping[str, Mapping[str, Any]]
    evaluator: Mapping[str, Mapping[str, Any]]
    objective: Mapping[str, Any]
    sampler: SamplerConfig
    search: SearchConfig = SearchConfig()
    runner: RunnerConfig = RunnerConfig()
    tracking: TrackingConfig = TrackingConfig()
    study: StudyConfig = StudyConfig()
    report: ReportConfig = ReportConfig()
    seed: int = 1
    workload_set: str = ""  # the choice's name, for labels and tags only

    def __post_init__(self) -> None:
        _whole("seed", self.seed, 0)

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the result: a study resumes only under the same identity."""
        return {
            "space": _plain(self.space),
            "workload": _plain(self.workload),
            "evaluator": _plain(self.evaluator),
            "objective": _plain(self.objective),
            "sampler": {
                "name": self.sampler.name,
                "kind": self.sampler.kind,
                "settings": _plain(self.sampler.settings),
            },
            "seed": self.seed,
        }

    @property
    def hash(self) -> str:
        """Hash of the identity."""
        return fingerprint(self.identity)

    @property
    def label(self) -> str:
        """A short name made from the choices."""
        parts = [
            self.space.get("name"),
            self.workload_set or "+".join(self.workload),
            self.objective.get("name"),
            self.sampler.name,
        ]
        how = "" if self.search.name == "joint" else f"-{self.search.name}"
        return "-".join(str(p) for p in parts if p)[:80] + f"{how}-seed{self.seed}"


SECTIONS = {
    "sampler": SamplerConfig,
    "search": SearchConfig,
    "runner": RunnerConfig,
    "tracking": TrackingConfig,
    "study": StudyConfig,
    "report": ReportConfig,
}
PLAIN_SECTIONS = ("space", "workload", "evaluator", "objective")


def parse(plain: Mapping[str, Any], workload_set: str = "") -> Config:
    """From plain nested values (Hydra's output) to a checked Config.

    Raises InputError for missing values (all listed at once), unknown keys and wrong types.
    """
    missing = list(_missing(plain, ""))
    if missing:
        raise InputError(f"no value is given for {', '.join(missing)}")
    known = [f.name for f in fields(Config) if f.name != "workload_set"]
    for key in plain:
        if key not in known:
            raise unknown_name("config key", key, known)
    given: dict[str, Any] = dict(plain)
    for key in PLAIN_SECTIONS:
        if not isinstance(given.get(key), Mapping):
            raise InputError(
                f"{key}={given.get(key)!r} must be a section of keys; for instance {key}=<one of its choices>"
            )
    for key, kind in SECTIONS.items():
        if key in given:
            given[key] = _section(key, kind, given[key])
    return Config(**given, workload_set=workload_set)


def _section(name: str, kind: type, values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise InputError(f"{name}={values!r} must be a section of keys")
    known = [f.name for f in fields(kind)]
    for key in values:
        if key not in known:
            raise unknown_name(f"key in {name}", key, known)
    needed = [key for key in ("name", "kind") if kind is SamplerConfig and not values.get(key)]
    if needed:
        raise InputError(f"{name} lacks {', '.join(needed)}")
    return kind(**values)


def _missing(value: Any, path: str) -> list[str]:
    if isinstance(value, Mapping):
        return [m for k, v in value.items() for m in _missing(v, f"{path}.{k}" if path else str(k))]
    return [path] if value == "???" else []


def _plain(value: Any) -> Any:
    """Mappings with string keys, lists, scalars: what JSON can hold and compare."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Dotted keys whose values differ, as "key: old -> new"."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = dict.fromkeys([*old, *new])
        return [d for k in keys for d in differences(old.get(k), new.get(k), f"{path}.{k}" if path else str(k))]
    return [] if old == new else [f"{path}: {old} -> {new}"]
