"""`cimopt evaluate`: one design in depth, or a table of designs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from cimopt.commands import hydra_app
from cimopt.config.assemble import Rooms, assemble
from cimopt.engine.design_files import DesignTable, design_table, read_columns, write_columns
from cimopt.errors import InputError, unknown_name
from cimopt.evaluators import Guarded
from cimopt.report import plots, summary, tables
from cimopt.report.result import RESULT, plain, write_json
from cimopt.space import flat
from cimopt.types import LayerTable, Metrics

OWN_KEYS = ("design", "designs", "out")
CHUNK = 1 << 16


def main(arguments: Sequence[str]) -> int:
    return hydra_app.run("evaluate", "evaluate", job, arguments)


def job(config: DictConfig) -> float | None:
    """One design (tables, picture; returns its score) or a file of designs."""
    rooms = assemble(hydra_app.checked(config, drop=OWN_KEYS))
    own = {key: OmegaConf.to_container(config, resolve=True)[key] for key in OWN_KEYS}
    if own["designs"] is not None and own["design"]:
        raise InputError("give either design.<parameter>=... or designs=FILE, not both")
    if own["designs"] is not None:
        _evaluate_file(rooms, own["designs"], own["out"])
        return None
    if own["out"] is not None:
        raise InputError("out=FILE goes with designs=FILE; one design is printed")
    if not own["design"]:
        example = " ".join(f"design.{name}=..." for name in rooms.space.names)
        raise InputError(f"no design is given; use designs=FILE out=FILE, or {example}")
    return _evaluate_one(rooms, own["design"], hydra_app.output_folder())


# ------------------------------------------------------------------- a table
def _evaluate_file(rooms: Rooms, designs: str, out: str | None) -> None:
    if out is None:
        raise InputError("designs=FILE needs out=FILE (.csv or .parquet)")
    launch = hydra_app.launch_folder()
    table = design_table(read_columns(launch / designs), rooms.space, _needed(rooms))
    if table.ignored:
        sys.stderr.write(f"cimopt: columns that are no parameters are carried through: {', '.join(table.ignored)}\n")
    guarded = Guarded(rooms.chain, input_errors_too=True)
    starts = range(0, len(table.designs), CHUNK)
    parts = [guarded.evaluate(table.designs.take(slice(s, s + CHUNK)), rooms.workloads) for s in starts]
    metrics = Metrics.concat(parts)
    if not metrics.values:
        raise InputError(f"no design could be evaluated: {metrics.reasons[int(metrics.reason[0])]}")
    write_columns(launch / out, _long_form(rooms, table, metrics))
    n_ok = int(metrics.ok.sum())
    tables.console().print(
        f"{len(table.designs)} designs x {len(rooms.workloads)} workloads, {n_ok} with metrics: {launch / out}",
        soft_wrap=True,
    )


def _needed(rooms: Rooms) -> list[str]:
    """Parameters the evaluators read."""
    given = set(rooms.chain.provides)
    return [name for name in rooms.chain.requires if name not in given]


def _long_form(rooms: Rooms, table: DesignTable, metrics: Metrics) -> dict[str, Any]:
    """One row per design and workload."""
    n, w = len(table.designs), len(rooms.workloads)
    rows = np.repeat(np.arange(n), w)
    scores = rooms.objective.score(metrics)
    columns: dict[str, Any] = {name: [values[i] for i in rows] for name, values in table.carried.items()}
    for name, value in table.designs.parameters.fixed.items():
        columns.setdefault(name, [value] * (n * w))
    columns["workload"] = [x.name for x in rooms.workloads] * n
    for name, values in metrics.values.items():
        columns[name] = np.repeat(values, w) if values.ndim == 1 else values.reshape(-1)
    columns["score"] = np.where(np.isfinite(scores.scalar[rows]), scores.scalar[rows], np.nan)
    columns["feasible"] = scores.feasible[rows].tolist()
    reasons = [_reason(metrics, scores, i) for i in range(n)]
    columns["reason"] = [reasons[i] for i in rows]
    columns["in_space"] = table.in_space[rows].tolist()
    return columns


def _reason(metrics: Metrics, scores: Any, i: int) -> str:
    """Why a design is not feasible: its reason, then every missed limit with its relative amount."""
    parts = [metrics.reasons[metrics.reason[i]]] if metrics.reason[i] else []
    parts += [f"{name} over its limit by {100 * a[i]:.4g} %" for name, a in scores.violations.items() if a[i] > 0]
    return "; ".join(parts)


# ---------------------------------------------------------------- one design
def _evaluate_one(rooms: Rooms, design: Mapping[str, Any], folder: Path) -> float | None:
    design = flat(design)
    known = dict.fromkeys([*rooms.space.parameters.all_names, *_needed(rooms)])
    for name in design:
        if name not in known:
            raise unknown_name("parameter in design", name, known)
    table = design_table({k: [v] for k, v in design.items()}, rooms.space, _needed(rooms))
    metrics = rooms.chain.evaluate(table.designs, rooms.workloads, "layers")
    scores = rooms.objective.score(metrics)
    one = plain(summary.entry(table.designs, metrics, scores, rooms.objective, 0))
    folder.mkdir(parents=True, exist_ok=True)
    status = "ok" if scores.feasible[0] else "infeasible"
    picture = _picture(rooms, metrics, folder) if metrics.ok[0] else []
    write_json(folder / RESULT, {"status": status, "in_space": bool(table.in_space[0]), **one})
    _print(rooms, one, metrics, table, folder, picture)
    return one["score"]


def _print(
    rooms: Rooms, one: Mapping[str, Any], metrics: Metrics, table: DesignTable, folder: Path, pictures: list[Path]
) -> None:
    console = tables.console()
    console.print(
        tables.plain_table("Design", ["parameter", "value"], [(tables.heading(k), v) for k, v in one["design"].items()])
    )
    if not table.in_space[0]:
        console.print(f"This design is not in space '{rooms.space.name}'.")
    limits = [
        (k, "no" if c["amount"] > 0 else "yes", c["amount"], c.get("value"), c.get("limit"), c.get("unit"))
        for k, c in one["constraints"].items()
    ]
    console.print(
        tables.plain_table("Constraints", ["limit on", "kept", "relative amount", "value", "limit", "unit"], limits)
    )
    if one["reason"]:
        console.print(f"[bold red]No metrics:[/] {one['reason']}")
        return
    console.print(f"Score ({one['score_unit']}): {tables.number(one['score'])}")
    _print_metrics(console, one["metrics"])
    for workload, layers in metrics.layers.items():
        console.print(_layers_table(workload, layers))
    for picture in pictures:
        console.print(f"Picture: {picture}", soft_wrap=True)
    console.print(f"Results: {folder / RESULT}", soft_wrap=True)


def _print_metrics(console: Any, metrics: Mapping[str, Mapping[str, float]]) -> None:
    """Totals first, then each breakdown with its total."""
    workloads = list(metrics)
    names = list(metrics[workloads[0]])
    totals = [n for n in names if "." not in n]
    console.print(tables.plain_table("Metrics", ["metric", *workloads], [_row(n, n, metrics) for n in totals]))
    for total in totals:
        parts = [n for n in names if n.startswith(f"{total}.")]
        if parts:
            rows = [_row(n.split(".", 1)[1], n, metrics) for n in parts] + [_row("total", total, metrics)]
            console.print(tables.plain_table(f"{total} by component", ["component", *workloads], rows))


def _row(label: str, metric: str, metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [label, *[tables.quantity(metric, values[metric]) for values in metrics.values()]]


def _layers_table(workload: str, layers: LayerTable) -> Any:
    shown = [name for name in layers.values if "." not in name]
    rows = [
        [layer, *[tables.quantity(name, float(layers.values[name][0, k])) for name in shown]]
        for k, layer in enumerate(layers.names)
    ]
    return tables.plain_table(f"Layers of {workload}", ["layer", *shown], rows)


def _picture(rooms: Rooms, metrics: Metrics, folder: Path) -> list[Path]:
    """Energy per layer, stacked by component, one picture per workload."""
    made = []
    for workload, layers in metrics.layers.items():
        parts = {k.split(".", 1)[1]: v[0] * 1e3 for k, v in layers.values.items() if k.startswith("energy_j.")}
        if parts:
            path = folder / f"layers_{workload}.png"
            made.append(plots.stacked_bars(path, layers.names, parts, "energy (mJ)", f"{workload}: energy per layer"))
    return made
