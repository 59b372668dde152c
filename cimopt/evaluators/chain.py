"""Evaluators one after another: each reads the space's parameters and earlier metrics.

Tiled model -> technology cost -> accuracy. The order follows `requires` and `provides`; a need
that nobody meets is an error before the first evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cimopt.errors import InputError
from cimopt.evaluators.base import Evaluator, Workloads, names
from cimopt.types import Designs, LayerTable, Limit, Metrics


def ordered(evaluators: Sequence[Evaluator], parameters: Sequence[str]) -> tuple[Evaluator, ...]:
    """The evaluators in an order in which every need is met.

    Raises InputError naming the evaluator and what it misses, or two that give the same metric.
    """
    _check_unique(evaluators)
    known, waiting, done = set(parameters), list(evaluators), []
    while waiting:
        ready = next((e for e in waiting if set(e.requires) <= known), None)
        if ready is None:
            first = waiting[0]
            missing = sorted(set(first.requires) - known)
            raise InputError(
                f"evaluator '{first.name}' needs {', '.join(repr(m) for m in missing)}, which neither the space nor "
                f"another chosen evaluator gives (given: {', '.join(sorted(known))})"
            )
        waiting.remove(ready)
        known |= set(ready.provides)
        done.append(ready)
    return tuple(done)


def _check_unique(evaluators: Sequence[Evaluator]) -> None:
    if not evaluators:
        raise InputError("no evaluator is chosen; for instance evaluator=tiled_published")
    giver: dict[str, str] = {}
    for evaluator in evaluators:
        for metric in evaluator.provides:
            if metric in giver:
                raise InputError(
                    f"evaluators '{giver[metric]}' and '{evaluator.name}' both give '{metric}'; choose one"
                )
            giver[metric] = evaluator.name


class Chain(Evaluator):
    """Several evaluators behaving as one. A design that got a reason is not passed on."""

    name, version, passes_on = "chain", "1", True

    def __init__(self, evaluators: Sequence[Evaluator], parameters: Sequence[str]) -> None:
        self.evaluators = ordered(evaluators, parameters)
        given = {m for e in self.evaluators for m in e.provides}
        self.requires = tuple(dict.fromkeys(r for e in self.evaluators for r in e.requires if r not in given))
        self.provides = tuple(m for e in self.evaluators for m in e.provides)

    def cache_key(self) -> dict:
        return {e.name: [e.version, e.cache_key()] for e in self.evaluators}

    def precheck(self, designs: Designs, workloads: Workloads) -> dict[str, np.ndarray]:
        violations: dict[str, np.ndarray] = {}
        for evaluator in self.evaluators:
            if set(evaluator.requires) <= {*designs.parameters.all_names}:
                violations |= evaluator.precheck(designs, workloads)
        return violations

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        total = _empty(len(designs), names(workloads))
        for evaluator in self.evaluators:
            rows = np.flatnonzero(total.ok)
            if not rows.size:
                break
            whole = rows.size == len(designs)
            upstream = total.values if whole else {k: v[rows] for k, v in total.values.items()}
            part = (designs if whole else designs.take(rows)).with_upstream(upstream)
            total = _merge(total, evaluator.evaluate(part, workloads, detail), None if whole else rows)
        return total


def _empty(n: int, workloads: tuple[str, ...]) -> Metrics:
    return Metrics({}, workloads, np.zeros(n, dtype=np.int16))


def _merge(total: Metrics, part: Metrics, rows: np.ndarray | None) -> Metrics:
    """Add one evaluator's results for `rows` (None: all) to the results so far."""
    n = len(total)
    added = part if rows is None else _spread(part, rows, n)
    reasons = tuple(dict.fromkeys([*total.reasons, *added.reasons]))
    code = np.array([reasons.index(r) for r in added.reasons], dtype=np.int16)[added.reason]
    reason = np.where(total.reason > 0, total.reason, code).astype(np.int16)
    earlier = dict(total.values)
    if earlier and (added.reason > 0).any():  # a later failure empties the earlier values of that design
        earlier = {k: _blank(v, reason > 0) for k, v in earlier.items()}
    values = earlier | dict(added.values)
    return Metrics(
        values, total.workloads, reason, reasons,
        dict(total.violations) | dict(added.violations), dict(total.limits) | dict(added.limits),
        _merge_layers(total, added),
    )  # fmt: skip


def _blank(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    values = values.astype(float, copy=True)
    values[rows] = np.nan
    return values


def _spread(part: Metrics, rows: np.ndarray, n: int) -> Metrics:
    """A result for some rows as one for all n: NaN, reason 0 and violation 0 elsewhere."""

    def wide(array: np.ndarray, fill: float) -> np.ndarray:
        full = np.full((n, *array.shape[1:]), fill, dtype=array.dtype)
        full[rows] = array
        return full

    return Metrics(
        {k: wide(v.astype(float), np.nan) for k, v in part.values.items()},
        part.workloads, wide(part.reason, 0), part.reasons,
        {k: wide(v, 0.0) for k, v in part.violations.items()},
        {k: Limit(wide(v.value, np.nan), wide(v.take(slice(None)).limit.astype(float), np.nan), v.unit) for k, v in part.limits.items()},
        {w: LayerTable(t.names, {k: wide(v, np.nan) for k, v in t.values.items()}) for w, t in part.layers.items()},
    )  # fmt: skip


def _merge_layers(total: Metrics, added: Metrics) -> dict[str, LayerTable]:
    layers = dict(total.layers)
    for workload, table in added.layers.items():
        old = layers.get(workload)
        layers[workload] = table if old is None else LayerTable(old.names, dict(old.values) | dict(table.values))
    return layers
