"""What a run's `result.json` says, on the terminal: after a run, and again by `cimopt report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cimopt.report import tables


def show_result(result: Mapping[str, Any], folder: Path, top: int | None = None) -> None:
    """Best designs (the first `top`), the best one per workload, counts and seconds."""
    console = tables.console()
    if result["status"] == "infeasible" and result["best"]:
        console.print(
            f"[bold red]No design is feasible.[/] Binding constraint of the least-violating one: {_binding(result)}"
        )
    if result["top"]:
        shown = result["top"][:top]
        console.print(tables.designs_table(shown, result.get("fixed", ()), f"Best designs of {result['title']}"))
    if result["best"] and result["best"]["metrics"]:
        console.print(tables.workloads_table(result["best"]))
    front = f", {result['n_pareto']:,} on the Pareto front" if "n_pareto" in result else ""
    seconds = ", ".join(f"{k} {tables.number(v)} s" for k, v in result["seconds"].items())
    console.print(
        f"{result['n_evaluated']:,} designs of {result['space_size']:,} ({result['n_feasible']:,} feasible, "
        f"{result['n_failed']:,} failed{front}); {seconds}"
    )
    files = [name for name in ("report.html", "result.json", "trials.parquet") if (folder / name).exists()]
    console.print(f"Results: {folder}  ({', '.join(files)})", soft_wrap=True)


def _binding(result: Mapping[str, Any]) -> str:
    name = result.get("binding_constraint", "")
    limit = result["best"]["constraints"].get(name, {})
    if "limit" not in limit:
        return name
    value, most = tables.number(limit.get("value")), tables.number(limit.get("limit"))
    return f"{name} ({value} against {most} {limit.get('unit', '')})"


def show_runs(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Several runs, one row each; the best score of every unit first."""
    ordered = sorted(runs, key=lambda run: (_unit(run[1]), _score(run[1]) is None, _score(run[1]) or 0.0))
    units = {_unit(one) for _, one in ordered} - {""}
    shared = len(units) == 1
    columns = ["run", "status", f"best ({units.pop()})" if shared else "best", *([] if shared else ["unit"])]
    rows = [
        [
            name, one["status"], _score(one), *([] if shared else [_unit(one)]), one.get("n_evaluated"),
            one.get("n_feasible"), one.get("seconds", {}).get("total"),
        ]
        for name, one in ordered
    ]  # fmt: skip
    tables.console().print(tables.plain_table(f"{len(rows)} runs", [*columns, "designs", "feasible", "s"], rows))


def _score(result: Mapping[str, Any]) -> float | None:
    return result["best"]["score"] if result.get("best") and result["status"] != "infeasible" else None


def _unit(result: Mapping[str, Any]) -> str:
    return result["best"]["score_unit"] if result.get("best") else ""
