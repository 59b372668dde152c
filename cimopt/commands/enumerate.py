"""`cimopt enumerate`: the exact optimum of a whole space."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from cimopt.commands import hydra_app
from cimopt.commands.progress import SearchProgress
from cimopt.config.assemble import Rooms, assemble
from cimopt.engine.exhaustive import Enumeration, Reduced
from cimopt.errors import InputError, unknown_name
from cimopt.report import summary
from cimopt.report.html import write_report
from cimopt.report.result import RESULT, plain, versions, write_json
from cimopt.report.terminal import show_result
from cimopt.store.study import FolderLock

MAX_PARETO = 1000  # entries of the front in result.json; n_pareto tells the whole number
KEYS = ("chunk", "top")


def main(arguments: Sequence[str]) -> int:
    return hydra_app.run("enumerate", "enumerate", job, arguments)


def job(config: DictConfig) -> float | None:
    """One enumeration; returns the optimum's score."""
    options = _options(OmegaConf.to_container(config["enumerate"], resolve=True))
    checked = hydra_app.checked(config, drop=("enumerate",))
    rooms = assemble(checked)
    folder = hydra_app.output_folder()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        enumeration = Enumeration(rooms, folder, **options)
        (folder / "config.yaml").write_text(OmegaConf.to_yaml(config, resolve=True))
        began = time.perf_counter()
        interrupted = _run(enumeration, rooms, checked.label)
        seconds = time.perf_counter() - began
    finally:
        lock.release()
    result = _result(rooms, enumeration.reduced, seconds, interrupted or not enumeration.complete)
    write_json(folder / RESULT, result)
    write_report(folder / "report.html", plain(result), [], result["command"])
    show_result(plain(result), folder, checked.report.top)
    return result["best"]["score"] if result["best"] else None


def _options(section: dict[str, Any]) -> dict[str, int]:
    for key, value in section.items():
        if key not in KEYS:
            raise unknown_name("key in enumerate", key, KEYS)
        if type(value) is not int or value < 1:
            raise InputError(f"enumerate.{key}={value!r} must be a whole number >= 1")
    return section


def _run(enumeration: Enumeration, rooms: Rooms, label: str) -> bool:
    """Returns whether it was interrupted."""
    with SearchProgress(label) as progress:
        progress.start(rooms.space.grid_size, enumeration.n_done)
        began, done = time.perf_counter(), 0
        try:
            for n in enumeration.run():
                done += n
                progress.advance(n)
                rate = done / max(time.perf_counter() - began, 1e-9)
                best = enumeration.reduced.top_values[:1]
                feasible = enumeration.reduced.n_feasible
                progress.note(f"{rate:,.0f} designs/s, {f'best {best[0]:.4g}' if feasible else 'nothing feasible yet'}")
        except KeyboardInterrupt:
            return True
    return False


def _result(rooms: Rooms, reduced: Reduced, seconds: float, unfinished: bool) -> dict[str, Any]:
    top = _entries(rooms, reduced.top_genes)
    order = np.lexsort(reduced.front.T[::-1])[:MAX_PARETO]
    status = "interrupted" if unfinished else ("ok" if reduced.n_feasible else "infeasible")
    result: dict[str, Any] = {
        "title": f"enumeration of {rooms.config.label}", "status": status, "best": top[0] if top else None, "top": top,
        "optimum": top[0] if top and reduced.n_feasible and not unfinished else None,
        "pareto": _entries(rooms, reduced.front_genes[order]), "pareto_axes": list(rooms.objective.axis_names),
        "n_pareto": len(reduced.front), "marginals": _marginals(rooms, reduced),
        "n_evaluated": reduced.n, "n_feasible": reduced.n_feasible, "n_failed": reduced.n_failed, "n_generations": 0,
        "seed": rooms.config.seed, "seconds": {"total": seconds, "sampling": 0.0, "evaluation": seconds, "overhead": 0.0},
        "space_size": rooms.space.size, "versions": versions({e.name: e.version for e in rooms.chain.evaluators}),
        "config_hash": rooms.identity_hash, "fixed": list(rooms.space.parameters.fixed),
        "command": hydra_app.command_line("enumerate"),
    }  # fmt: skip
    if not reduced.n_feasible and top:
        amounts = {k: c["amount"] for k, c in top[0]["constraints"].items()}
        result["binding_constraint"] = max(amounts, key=amounts.get) if amounts else ""
    return result


def _entries(rooms: Rooms, genes: np.ndarray) -> list[dict[str, Any]]:
    if not len(genes):
        return []
    designs = rooms.space.designs(genes)
    metrics = rooms.chain.evaluate(designs, rooms.workloads)
    scores = rooms.objective.score(metrics)
    return [summary.entry(designs, metrics, scores, rooms.objective, i) for i in range(len(designs))]


def _marginals(rooms: Rooms, reduced: Reduced) -> dict[str, dict[str, float]]:
    """Best score per choice of each independent parameter: what a single fixed value costs."""
    found = {}
    for g, p in enumerate(rooms.space.parameters.parameters):
        labels = p.choices or tuple(range(p.n_choices))
        found[p.name] = {str(c): float(reduced.marginals[g, k]) for k, c in enumerate(labels)}
    return found
