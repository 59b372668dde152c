"""Metrics and violations -> values to minimise and constraint amounts.

A score is a product of powers of metrics, each aggregated over the workloads first
(max, mean or all = product), as in the joint co-optimization paper's Eq. 3 and section IV-C:
EDAP with max aggregation is max(E) x max(L) x A in mJ.ms.mm2.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt.types import Limit, Metrics

AGGREGATES = ("max", "mean", "all")
OBJECTIVE_KEYS = ("name", "product", "goals", "aggregate", "aggregate_by", "area_max_mm2", "limits")
# How a metric enters a score: factor from the SI metric to the unit people read, and that unit.
DISPLAY_UNITS: dict[str, tuple[float, str]] = {
    "energy_j": (1e3, "mJ"),
    "latency_s": (1e3, "ms"),
    "area_mm2": (1.0, "mm2"),
    "cost": (1.0, "cost"),
    "accuracy": (1.0, "1"),
    "throughput_ips": (1.0, "1/s"),
}


@dataclass(frozen=True)
class Bound:
    """A limit on one metric: `max` or `min`, taken on the worst workload."""

    metric: str
    max: float | None = None
    min: float | None = None

    def amount(self, values: np.ndarray) -> np.ndarray:
        """Relative amount by which the limit is missed, (n,): <= 0 is feasible, 0 included; NaN stays."""
        limit = self.max if self.max is not None else self.min
        sign = 1.0 if self.max is not None else -1.0
        scale = abs(limit) or 1.0  # a limit of 0 has no relative amount: the absolute one is used
        return sign * (self.worst(values) - limit) / scale

    def worst(self, values: np.ndarray) -> np.ndarray:
        """The workload that binds, (n,)."""
        if values.ndim == 1:
            return values
        return values.max(axis=1) if self.max is not None else values.min(axis=1)


@dataclass(frozen=True)
class Scores:
    """What the sampler sees: `values` (n, k) to minimise, +inf without metrics; `violations` name -> (n,).

    `errors` marks failed designs, bool (n,). A design is feasible when it has metrics and no
    violation is positive.
    """

    values: np.ndarray
    violations: Mapping[str, np.ndarray]
    errors: np.ndarray
    limits: Mapping[str, Limit] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def total_violation(self) -> np.ndarray:
        """Sum of the positive relative amounts, (n,)."""
        total = np.zeros(len(self))
        for amount in self.violations.values():
            total += np.maximum(amount, 0.0)
        return total

    @property
    def feasible(self) -> np.ndarray:
        """bool (n,)"""
        return np.isfinite(self.values).all(axis=1) & (self.total_violation <= 0) & ~self.errors

    @property
    def scalar(self) -> np.ndarray:
        """One number per design, (n,): the value; with several goals their product (scale-free), +inf without metrics."""
        return self.values.prod(axis=1) if len(self) else np.zeros(0)


@dataclass(frozen=True)
class Objective:
    """Goals to minimise, each a product of metric powers, with limits.

    Usually there is one goal, the score; with several the search looks for their Pareto front.
    """

    name: str
    goals: Mapping[str, Mapping[str, float]]
    aggregate: str = "max"
    aggregate_by: Mapping[str, str] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()

    @property
    def requires(self) -> tuple[str, ...]:
        """Metrics it reads."""
        read = [metric for product in self.goals.values() for metric in product]
        return tuple(dict.fromkeys([*read, *(b.metric for b in self.bounds)]))

    def unit(self, n_workloads: int) -> str:
        """The score's unit, for instance mJ.ms.mm2; goals are joined by " x "."""
        return " x ".join(self.units(n_workloads).values())

    def units(self, n_workloads: int) -> dict[str, str]:
        """Unit of every goal; "all" multiplies over workloads, so powers appear."""
        return {name: self._unit_of(product, n_workloads) for name, product in self.goals.items()}

    def _unit_of(self, product: Mapping[str, float], n_workloads: int) -> str:
        parts = []
        for metric, power in product.items():
            unit = DISPLAY_UNITS.get(metric, (1.0, metric))[1]
            shared = metric in ("area_mm2", "cost")
            total = power * (1 if shared or self._aggregate(metric) != "all" else n_workloads)
            if unit != "1":
                parts.append(unit if total == 1 else f"{unit}^{total:g}")
        return ".".join(parts)

    def _aggregate(self, metric: str) -> str:
        return self.aggregate_by.get(metric, self.aggregate)

    def score(self, metrics: Metrics) -> Scores:
        """Values (n, k) and constraint amounts of every design."""
        n = len(metrics)
        columns = []
        for product in self.goals.values():
            value = np.ones(n)
            for metric, power in product.items():
                factor = DISPLAY_UNITS.get(metric, (1.0, ""))[0]
                value = value * _aggregate(self._values(metrics, metric) * factor, self._aggregate(metric)) ** power
            columns.append(np.where(metrics.ok, value, np.inf))
        violations = dict(metrics.violations)
        limits = dict(metrics.limits)
        for bound in self.bounds:
            self._apply(bound, metrics, violations, limits)
        infeasible = np.zeros(n, dtype=bool)
        for amount in violations.values():
            infeasible |= amount > 0
        return Scores(np.stack(columns, axis=1), violations, ~metrics.ok & ~infeasible, limits)

    @property
    def axis_names(self) -> tuple[str, ...]:
        """What a Pareto front trades: the goals, or with one goal the metrics it multiplies."""
        return tuple(self.goals) if len(self.goals) > 1 else tuple(next(iter(self.goals.values())))

    def axes(self, metrics: Metrics) -> np.ndarray:
        """The traded quantities, (n, k), to minimise; a single goal's metrics are aggregated over the workloads."""
        if len(self.goals) > 1:
            return self.score(metrics).values
        product = next(iter(self.goals.values()))
        columns = [_aggregate(self._values(metrics, m), self._aggregate(m)) * np.sign(p) for m, p in product.items()]
        return np.stack(columns, axis=1)

    def of_workload(self, metrics: Metrics, w: int) -> np.ndarray:
        """The first goal on one workload alone, (n,): the paper's per-workload score of a joint design."""
        value = np.ones(len(metrics))
        for metric, power in next(iter(self.goals.values())).items():
            values = self._values(metrics, metric)
            value = (
                value
                * ((values if values.ndim == 1 else values[:, w]) * DISPLAY_UNITS.get(metric, (1.0, ""))[0]) ** power
            )
        return value

    @staticmethod
    def _values(metrics: Metrics, name: str) -> np.ndarray:
        if name in metrics.values:
            return metrics.values[name]
        if metrics.ok.any():
            raise unknown_name("metric", name, metrics.values)
        return np.full(len(metrics), np.nan)

    def _apply(self, bound: Bound, metrics: Metrics, violations: dict, limits: dict) -> None:
        values = self._values(metrics, bound.metric)
        # Without metrics the amount is unknown; the reason's own violation speaks for the design.
        violations[bound.metric] = np.nan_to_num(bound.amount(values), nan=0.0)
        limit = bound.max if bound.max is not None else bound.min
        limits[bound.metric] = Limit(bound.worst(values), np.full(len(metrics), float(limit)), _unit(bound.metric))


def _unit(metric: str) -> str:
    return metric.rsplit("_", 1)[-1] if "_" in metric else ""


def _aggregate(values: np.ndarray, how: str) -> np.ndarray:
    """Over workloads: (n, w) -> (n,); a per-design metric is itself."""
    if values.ndim == 1:
        return values
    # Column by column: NumPy's reductions along a short last axis are several times slower.
    columns = list(values.T)
    if how == "max":
        return functools.reduce(np.maximum, columns)
    if how == "mean":
        return functools.reduce(np.add, columns) / len(columns)
    return functools.reduce(np.multiply, columns)


def from_config(config: Mapping[str, Any]) -> Objective:
    """Build from the objective section; wrong keys and values are one InputError each."""
    for key in config:
        if key not in OBJECTIVE_KEYS:
            raise unknown_name("key in objective", key, OBJECTIVE_KEYS)
    goals = _goals(config)
    aggregates = {str(k): str(v) for k, v in (config.get("aggregate_by") or {}).items()}
    aggregate = str(config.get("aggregate") or "max")
    for value in (aggregate, *aggregates.values()):
        if value not in AGGREGATES:
            raise unknown_name("objective.aggregate", value, AGGREGATES)
    return Objective(str(config.get("name") or "objective"), goals, aggregate, aggregates, _bounds(config))


def _goals(config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Either `product` (one goal, named after the objective) or `goals` (several)."""
    product, several = config.get("product"), config.get("goals")
    if product and several:
        raise InputError("objective: give either product (one goal) or goals (several), not both")
    listed = several or {str(config.get("name") or "objective"): product}
    for name, powers in listed.items():
        if not isinstance(powers, Mapping) or not powers:
            key = "product" if not several else f"goals.{name}"
            raise InputError(f"objective.{key} names no metric; for instance {{energy_j: 1, latency_s: 1}}")
    return {str(n): {str(k): _number(f"objective.{n}.{k}", v) for k, v in p.items()} for n, p in listed.items()}


def _bounds(config: Mapping[str, Any]) -> tuple[Bound, ...]:
    bounds: list[Bound] = []
    if config.get("area_max_mm2") is not None:
        bounds.append(Bound("area_mm2", max=_number("objective.area_max_mm2", config["area_max_mm2"])))
    for metric, limits in (config.get("limits") or {}).items():
        given = {k: v for k, v in dict(limits).items() if v is not None}
        if len(given) != 1 or next(iter(given)) not in ("max", "min"):
            raise InputError(f"objective.limits.{metric}={limits} needs exactly one of max, min")
        if any(b.metric == metric for b in bounds):
            raise InputError(f"objective.limits.{metric} repeats objective.area_max_mm2; keep one of them")
        bounds.append(Bound(metric, **{k: _number(f"objective.limits.{metric}.{k}", v) for k, v in given.items()}))
    return tuple(bounds)


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise InputError(f"{key}={value!r} must be a finite number")
    return float(value)


def check_available(objective: Objective, provided: Sequence[str]) -> None:
    """Refuse, before a study starts, an objective whose metrics nobody gives."""
    for metric in objective.requires:
        if metric not in provided:
            raise InputError(
                f"objective '{objective.name}' needs the metric '{metric}', which no chosen evaluator gives "
                f"(given: {', '.join(sorted(provided))})"
            )
