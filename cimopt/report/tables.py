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


def quantity(name: str, value: Any) -> str:
    """A metric with its unit, prefixed for reading: latency_s=7e-7 is "700 ns"."""
    base = name.split(".", 1)[0]
    if value is None:
        return ""
    if "_per_" in base:  # a ratio says its unit in its name; `tops_per_mm2` is no area
        return number(float(value))
    for suffix, unit in SI_UNITS.items():
        if base.endswith(suffix):
            return _prefixed(float(value), unit)
    for suffix, unit in PLAIN_UNITS.items():
        if base.endswith(suffix):
            return f"{float(value):.4g} {unit}"
    return number(float(value)) if isinstance(value, int | float) else str(value)


SI_UNITS = {"_j": "J", "_s": "s"}
PLAIN_UNITS = {"_mm2": "mm2", "_ips": "1/s", "_v": "V", "_ns": "ns", "_mb": "MB", "_nm": "nm"}
PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p"), (1e-15, "f"))


def _prefixed(value: float, unit: str) -> str:
    if value == 0:
        return f"0 {unit}"
    factor, prefix = next(((f, p) for f, p in PREFIXES if abs(value) >= f), PREFIXES[-1])
    return f"{value / factor:.4g} {prefix}{unit}"


def designs_table(entries: Sequence[Mapping[str, Any]], hidden: Sequence[str], title: str) -> Any:
    """Best designs as columns; rows are the score, the worst workload's metrics, the variable parameters."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for rank in range(1, len(entries) + 1):
        table.add_column(f"#{rank}", justify="right")
    unit = entries[0]["score_unit"] if entries else ""
    table.add_row(f"score ({unit})", *[number(one["score"]) for one in entries], style="bold")
    for metric in _metric_names(entries):
        shown = [_worst(one, metric) for one in entries]
        cells = [("yes" if v else "no") for v in shown] if metric in FLAGS else [quantity(metric, v) for v in shown]
        table.add_row(_metric_label(metric), *cells)
    table.add_section()
    for name in [n for n in (entries[0]["design"] if entries else {}) if n not in hidden]:
        table.add_row(heading(name), *[number(one["design"][name]) for one in entries])
    return table


SHOWN_METRICS = ("energy_j", "latency_s", "area_mm2", "cost", "adc_clips", "bandwidth_bound")
FLAGS = ("adc_clips", "bandwidth_bound")  # 0 or 1: does it hold for any workload?


def _metric_label(metric: str) -> str:
    if metric in FLAGS:
        return metric
    per_workload = metric in ("energy_j", "latency_s")
    return f"{metric.split('_')[0]}{', worst workload' if per_workload else ''}"


def _metric_names(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    given = {m for one in entries for values in one["metrics"].values() for m in values}
    return [m for m in SHOWN_METRICS if m in given]


def _worst(one: Mapping[str, Any], metric: str) -> float | None:
    values = [v[metric] for v in one["metrics"].values() if metric in v]
    return max(values) if values else None


def workloads_table(one: Mapping[str, Any]) -> Any:
    """One design on each workload alone; the metrics people compare first."""
    from rich.table import Table

    table = Table(title=f"Best design, per workload (score in {one['score_unit']})", title_justify="left")
    values = one["metrics"]
    metrics = [m for m in ("energy_j", "latency_s", "utilization", "accuracy") if any(m in v for v in values.values())]
    for column in ["workload", "score", *[m.rsplit("_", 1)[0] if "_" in m else m for m in metrics]]:
        table.add_column(column, justify="left" if column == "workload" else "right")
    for name, per in values.items():
        score = one["scores_per_workload"].get(name)
        table.add_row(name, number(score), *[quantity(m, per.get(m)) for m in metrics])
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
