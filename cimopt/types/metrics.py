"""Metrics, limits, outcomes: what an evaluator answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Detail = Literal["totals", "components", "layers"]
DETAILS: tuple[str, ...] = ("totals", "components", "layers")


@dataclass(frozen=True)
class Limit:
    """What a violation was computed from, for reports: value and limit, each (n,), in `unit`."""

    value: np.ndarray
    limit: np.ndarray
    unit: str

    def take(self, rows: np.ndarray | slice) -> Limit:
        return Limit(self.value[rows], np.broadcast_to(self.limit, self.value.shape)[rows], self.unit)


@dataclass(frozen=True)
class LayerTable:
    """Per-layer values of one workload: `values[metric]` is (n, n_layers)."""

    names: tuple[str, ...]
    values: Mapping[str, np.ndarray]

    def take(self, rows: np.ndarray | slice) -> LayerTable:
        return LayerTable(self.names, {k: v[rows] for k, v in self.values.items()})


@dataclass(frozen=True)
class Outcome:
    """What one design got: ok, infeasible (with relative amounts) or error (with a reason)."""

    state: Literal["ok", "infeasible", "error"]
    reason: str = ""
    amounts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Metrics:
    """Results of n designs on w workloads.

    `values[name]` is (n,) per design or (n, w) per workload, NaN exactly in the rows with a
    reason. `reason` indexes `reasons`, whose entry 0 is "ok". `violations[name]` is (n,),
    relative (value/limit - 1), > 0 violated; it is filled even where there are no metrics.
    """

    values: Mapping[str, np.ndarray]
    workloads: tuple[str, ...]
    reason: np.ndarray | None = None
    reasons: tuple[str, ...] = ("ok",)
    violations: Mapping[str, np.ndarray] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    layers: Mapping[str, LayerTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reason is None:
            n = len(next(iter(self.values.values()), ()))
            object.__setattr__(self, "reason", np.zeros(n, dtype=np.int16))
        if not self.reasons or self.reasons[0] != "ok":
            raise ValueError("reasons[0] must be 'ok'")

    def __len__(self) -> int:
        return len(self.reason)

    @property
    def ok(self) -> np.ndarray:
        """Rows with metrics, bool (n,)."""
        return self.reason == 0

    @property
    def total_violation(self) -> np.ndarray:
        """Sum of positive relative amounts, (n,)."""
        total = np.zeros(len(self))
        for amount in self.violations.values():
            total += np.maximum(amount, 0.0)
        return total

    def outcome(self, i: int) -> Outcome:
        amounts = {k: float(v[i]) for k, v in self.violations.items() if v[i] > 0}
        reason = self.reasons[self.reason[i]] if self.reason[i] else ""
        if amounts:
            return Outcome("infeasible", reason, amounts)
        return Outcome("error", reason) if reason else Outcome("ok")

    def take(self, rows: np.ndarray | slice) -> Metrics:
        return Metrics(
            values={k: v[rows] for k, v in self.values.items()},
            workloads=self.workloads,
            reason=self.reason[rows],
            reasons=self.reasons,
            violations={k: v[rows] for k, v in self.violations.items()},
            limits={k: v.take(rows) for k, v in self.limits.items()},
            layers={k: v.take(rows) for k, v in self.layers.items()},
        )

    @staticmethod
    def failed(reasons: Sequence[str], workloads: tuple[str, ...]) -> Metrics:
        """Rows that only have a reason, one per entry of `reasons`."""
        known = tuple(dict.fromkeys(reasons))
        codes = np.array([1 + known.index(r) for r in reasons], dtype=np.int16)
        return Metrics(values={}, workloads=workloads, reason=codes, reasons=("ok", *known))

    @staticmethod
    def concat(parts: Sequence[Metrics]) -> Metrics:
        """Stack rows. A value missing in one part is NaN there, a missing violation is 0."""
        if len(parts) == 1:
            return parts[0]
        reasons = tuple(dict.fromkeys(r for part in parts for r in part.reasons))
        codes = [np.array([reasons.index(r) for r in part.reasons], dtype=np.int16)[part.reason] for part in parts]
        limits = {
            name: Limit(
                _stack([(len(p), p.limits[name].value if name in p.limits else None) for p in parts], np.nan),
                _stack(
                    [(len(p), p.limits[name].take(slice(None)).limit if name in p.limits else None) for p in parts],
                    np.nan,
                ),
                next(p.limits[name].unit for p in parts if name in p.limits),
            )
            for name in _keys(p.limits for p in parts)
        }
        return Metrics(
            values={
                k: _stack([(len(p), p.values.get(k)) for p in parts], np.nan) for k in _keys(p.values for p in parts)
            },
            workloads=parts[0].workloads,
            reason=np.concatenate(codes),
            reasons=reasons,
            violations={
                k: _stack([(len(p), p.violations.get(k)) for p in parts], 0.0)
                for k in _keys(p.violations for p in parts)
            },
            limits=limits,
        )


def _keys(maps: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(key for one in maps for key in one))


def _stack(parts: Sequence[tuple[int, np.ndarray | None]], fill: float) -> np.ndarray:
    """Concatenate along rows; an absent part of n rows is filled."""
    width = next(a.shape[1:] for _, a in parts if a is not None)
    return np.concatenate([np.full((n, *width), fill) if a is None else a for n, a in parts])
