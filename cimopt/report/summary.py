"""From evaluated designs to the entries of `result.json` and the rows of `trials.parquet`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.types import Designs, Metrics

TRIALS = "trials.parquet"


def entry(designs: Designs, metrics: Metrics, scores: Any, objective: Any, i: int) -> dict[str, Any]:
    """One design as `result.json` shows it: design, score with unit, metrics per workload, constraints."""
    score = float(scores.scalar[i])
    goals = {name: float(v) for name, v in zip(objective.goals, scores.values[i], strict=True)}
    return {
        "design": designs.row(i),
        "score": score if np.isfinite(score) else None,
        "score_unit": objective.unit(len(metrics.workloads)),
        **({"goals": goals, "goal_units": objective.units(len(metrics.workloads))} if len(goals) > 1 else {}),
        "feasible": bool(scores.feasible[i]),
        "reason": metrics.reasons[metrics.reason[i]] if metrics.reason[i] else "",
        "metrics": _metrics(metrics, i),
        "scores_per_workload": {
            name: float(objective.of_workload(metrics, w)[i]) for w, name in enumerate(metrics.workloads)
        }
        if metrics.ok[i]
        else {},
        "constraints": {name: _constraint(scores, name, i) for name in scores.violations},
    }


def _metrics(metrics: Metrics, i: int) -> dict[str, dict[str, float]]:
    """{workload: {metric: value}}; a per-design metric (area) is repeated under every workload."""
    if not metrics.ok[i]:
        return {}
    return {
        name: {k: float(v[i] if v.ndim == 1 else v[i, w]) for k, v in metrics.values.items()}
        for w, name in enumerate(metrics.workloads)
    }


def _constraint(scores: Any, name: str, i: int) -> dict[str, Any]:
    """Relative amount (<= 0 holds) with the value, limit and unit it came from, where known."""
    shown: dict[str, Any] = {"amount": float(scores.violations[name][i])}
    limit = scores.limits.get(name)
    if limit is not None:
        shown |= {"value": float(limit.value[i]), "limit": float(limit.limit[i]), "unit": limit.unit}
    return shown


def best_rows(scores: Any, n: int) -> np.ndarray:
    """Rows of the n best feasible designs; when nothing is feasible, of the n least violating ones.

    Among those, designs with metrics come first: without metrics only a part of the limits is known.
    """
    value = scores.scalar
    rows = np.flatnonzero(scores.feasible)
    if rows.size:
        return rows[np.lexsort((rows, value[rows]))][:n]
    rows = np.flatnonzero(~scores.errors)
    return rows[np.lexsort((rows, value[rows], scores.total_violation[rows], np.isinf(value[rows])))][:n]


def binding_constraint(scores: Any, row: int) -> str:
    """The constraint that the least-violating design misses most."""
    amounts = {name: float(a[row]) for name, a in scores.violations.items()}
    return max(amounts, key=amounts.get) if amounts else ""


def write_trials(
    path: Path, number: np.ndarray, generation: np.ndarray, designs: Designs, metrics: Metrics, scores: Any
) -> None:
    """One row per design; a missing value is null, never a sentinel."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"number": number, "generation": generation}
    columns |= {name: np.ascontiguousarray(designs[name]) for name in designs.parameters.all_names}
    columns["score"] = _nullable(scores.scalar)
    columns["feasible"] = scores.feasible
    columns["state"] = [metrics_state(metrics, scores, i) for i in range(len(designs))]
    columns["reason"] = [metrics.reasons[r] if r else "" for r in metrics.reason]
    for name, amount in scores.violations.items():
        columns[f"violation.{name}"] = amount
    for name, values in metrics.values.items():
        if values.ndim == 1:
            columns[name] = _nullable(values)
        else:
            columns |= {f"{name}.{w}": _nullable(values[:, k]) for k, w in enumerate(metrics.workloads)}
    pq.write_table(pa.table(columns), path)


def join_trials(parts: Sequence[Path], path: Path) -> None:
    """Tables of a study's steps as one file, held one at a time; a column that a step lacks is null there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.unify_schemas([pq.read_schema(part) for part in parts])
    with pq.ParquetWriter(path, schema) as writer:
        for part in parts:
            table = pq.read_table(part)
            columns = [table[f.name] if f.name in table.column_names else pa.nulls(len(table), f.type) for f in schema]
            writer.write_table(pa.table(columns, schema=schema))


def metrics_state(metrics: Metrics, scores: Any, i: int) -> str:
    if scores.errors[i]:
        return "error"
    return "ok" if scores.feasible[i] else "infeasible"


def _nullable(values: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.array(values, mask=~np.isfinite(values))
