"""Tables for the terminal (rich). Every number has its unit in the heading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UNITS = {"v_op": "V", "t_cycle_ns": "ns", "glb_mb": "MB", "node_nm": "nm"}


def console() -> Any:
    from rich.console import Console

    return Console()


def number(value: Any) -> str:
    """Four significant digits for reals, whole numbers and words as they are; nothing for no value."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def heading(name: str) -> str:
    unit = UNITS.get(name)
    if unit is None:
        return name
    return f"{name.removesuffix('_' + unit.lower())} ({unit})"


def designs_table(entries: Sequence[Mapping[str, Any]], hidden: Sequence[str], title: str) -> Any:
    """Best designs: rank, score, the variable parameters, and the worst workload's metrics."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    unit = entries[0]["score_unit"] if entries else ""
    names = [n for n in (entries[0]["design"] if entries else {}) if n not in hidden]
    metrics = _metric_names(entries)
    for column in ["#", f"score ({unit})", *map(heading, names), *metrics]:
        table.add_column(column, justify="right", overflow="fold")
    for rank, one in enumerate(entries, 1):
        worst = [number(_worst(one, m)) for m in metrics]
        table.add_row(str(rank), number(one["score"]), *[number(one["design"][n]) for n in names], *worst)
    return table


SHOWN_METRICS = ("energy_j", "latency_s", "area_mm2", "cost")


def _metric_names(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    given = {m for one in entries for values in one["metrics"].values() for m in values}
    return [m for m in SHOWN_METRICS if m in given]


def _worst(one: Mapping[str, Any], metric: str) -> float | None:
    values = [v[metric] for v in one["metrics"].values() if metric in v]
    return max(values) if values else None


def workloads_table(one: Mapping[str, Any]) -> Any:
    """The best design on each workload alone."""
    from rich.table import Table

    table = Table(title="Best design, per workload", title_justify="left")
    metrics = sorted({m for values in one["metrics"].values() for m in values})
    for column in ["workload", f"score ({one['score_unit']})", *metrics]:
        table.add_column(column, justify="left" if column == "workload" else "right")
    for name, values in one["metrics"].items():
        score = one["scores_per_workload"].get(name)
        table.add_row(name, number(score), *[number(values.get(m)) for m in metrics])
    return table


def plain_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """Any small table; the first column is text, the others numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*[number(v) for v in row])
    return table
