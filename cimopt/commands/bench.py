"""`cimopt bench`: how near samplers come to the true optimum, and how fast."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from cimopt.commands import hydra_app
from cimopt.commands.progress import SearchProgress
from cimopt.config.assemble import assemble, make_runner
from cimopt.config.compose import compose_within
from cimopt.config.schema import Config, differences, parse
from cimopt.engine.bench import RUNS, BenchRecipe, Task, at, check_options, read_runs, run_missing, summarise
from cimopt.engine.exhaustive import Enumeration
from cimopt.errors import InputError, StudyConflictError, unknown_name
from cimopt.report import plots, tables
from cimopt.report.result import RESULT, plain, versions, write_json
from cimopt.store.study import FolderLock

KEYS = ("samplers", "spaces", "seeds")
CHUNK = 1 << 16
POINTS = 200  # of each convergence curve


def main(arguments: Sequence[str]) -> int:
    return hydra_app.run("bench", "bench", job, arguments)


def job(config: DictConfig) -> None:
    """Enumerate each space once, run every sampler and seed that is missing, summarise."""
    options = OmegaConf.to_container(config["bench"], resolve=True)
    for key in options:
        if key not in KEYS:
            raise unknown_name("key in bench", key, KEYS)
    check_options(options["samplers"], options["spaces"], options["seeds"])
    base = {k: v for k, v in OmegaConf.to_container(config, resolve=True).items() if k != "bench"}
    configs = _configs(base, options)
    folder = hydra_app.output_folder()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        _check_same(folder, configs)
        optima = {
            space: _optimum(parse(configs[space, options["samplers"][0]]), folder, space) for space in options["spaces"]
        }
        tasks = [
            Task(s, a, k)
            for s in options["spaces"]
            for a in options["samplers"]
            for k in range(1, options["seeds"] + 1)
        ]
        _run(folder, tasks, configs, parse(next(iter(configs.values()))))
    finally:
        lock.release()
    _finish(folder, tasks, options, optima)


def _configs(base: dict[str, Any], options: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """A whole configuration per (space, sampler); a misspelt name is refused before anything runs."""
    found = {}
    for space in options["spaces"]:
        for sampler in options["samplers"]:
            chosen = compose_within([f"space={space}", f"sampler={sampler}"])
            found[space, sampler] = {**base, "space": chosen["space"], "sampler": chosen["sampler"]}
            rooms = assemble(parse(found[space, sampler]))
            if len(rooms.objective.goals) > 1:
                raise InputError("bench compares single scores; choose an objective with one goal")
    return found


def _check_same(folder: Path, configs: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Runs of other settings must not be mixed into one summary."""
    path = folder / "bench_identity.json"
    identity = {f"{space} {sampler}": parse(c).identity for (space, sampler), c in configs.items()}
    if path.exists():
        known = json.loads(path.read_text())
        changed = [
            d
            for key in known.keys() & identity.keys()
            for d in differences(known[key], json.loads(json.dumps(identity[key])))
        ]
        if changed:
            raise StudyConflictError(f"{folder} holds a bench with other settings: {changed[0]}; use a new folder")
        identity = {**known, **identity}
    write_json(path, identity)


def _optimum(config: Config, folder: Path, space: str) -> float:
    """The best feasible score of the whole space, enumerated once and kept."""
    place = folder / "optimum" / space
    place.mkdir(parents=True, exist_ok=True)
    rooms = assemble(config)
    enumeration = Enumeration(rooms, place, chunk=CHUNK, top=10)
    with SearchProgress(f"optimum of {space}") as progress:
        progress.start(rooms.space.grid_size, enumeration.n_done)
        for n in enumeration.run():
            progress.advance(n)
    if not enumeration.reduced.n_feasible:
        raise InputError(f"space '{space}' has no feasible design under these limits; there is nothing to compare with")
    return float(enumeration.reduced.top_values[0])


def _run(folder: Path, tasks: list[Task], configs: dict[tuple[str, str], dict[str, Any]], config: Config) -> None:
    known = len({(t.space, t.sampler, t.seed) for t in tasks} & read_runs(folder / RUNS).keys())
    with SearchProgress("bench", unit="runs") as progress, make_runner(config, size=lambda task: 1) as runner:
        progress.start(len(tasks), known)
        if known == len(tasks):
            return
        runner.start(BenchRecipe(configs))
        for line in run_missing(folder / RUNS, tasks, runner):
            progress.advance(1)
            best = line["steps"][-1][1] if line["steps"] else None
            progress.note(
                f"{line['space']} {line['sampler']} seed {line['seed']}: {tables.number(best) or 'nothing feasible'}"
            )


def _finish(folder: Path, tasks: list[Task], options: dict[str, Any], optima: dict[str, float]) -> None:
    known = read_runs(folder / RUNS)
    done = [known[t.space, t.sampler, t.seed] for t in tasks if (t.space, t.sampler, t.seed) in known]
    spaces: dict[str, Any] = {}
    for space, optimum in optima.items():
        of_space = {s: [r for r in done if r["space"] == space and r["sampler"] == s] for s in options["samplers"]}
        spaces[space] = {
            "optimum": optimum,
            "samplers": {s: summarise(runs, optimum) for s, runs in of_space.items() if runs},
        }
        _picture(folder / f"convergence_{space}.png", space, optimum, of_space)
    result = {
        "status": "ok" if len(done) == len(tasks) else "interrupted", "seeds": options["seeds"], "spaces": spaces,
        "versions": versions({}),
    }  # fmt: skip
    write_json(folder / RESULT, result)
    _show(plain(result), folder)


def _picture(path: Path, space: str, optimum: float, runs: dict[str, list[dict[str, Any]]]) -> None:
    most = max((r["evaluations"] for lines in runs.values() for r in lines), default=0)
    if not most:
        return
    x = np.unique(np.geomspace(10, max(most, 11), POINTS).astype(int))
    curves = {s: np.array([at(r["steps"], x) for r in lines]) / optimum - 1 for s, lines in runs.items() if lines}
    plots.bands(path, x, curves, f"{space}: regret against the enumerated optimum")


def _show(result: dict[str, Any], folder: Path) -> None:
    console = tables.console()
    for space, found in result["spaces"].items():
        rows = [
            [
                name,
                s["mean"],
                s["std"],
                _percent(s["median_regret"]),
                f"{s['found_optimum']}/{s['runs']}",
                f"{s['within_1_percent']}/{s['runs']}",
                s["median_evaluations_to_1_percent"],
                s["mean_seconds"],
            ]
            for name, s in found["samplers"].items()
        ]
        columns = ["sampler", "mean", "std", "regret", "exact", "< 1 %", "evals", "s"]
        console.print(tables.plain_table(f"{space}: optimum {found['optimum']:.6g}", columns, rows))
        for name, s in found["samplers"].items():
            if s["none_feasible"]:
                console.print(f"{name}: {s['none_feasible']} of {s['runs']} runs found nothing feasible")
            for error in s["errors"]:
                console.print(f"{name}: {error}")
    console.print("regret: median over all runs; exact, < 1 %: runs that got there; evals: median evaluations to 1 %")
    console.print(f"Results: {folder}  ({RESULT}, {RUNS}, convergence_<space>.png)", soft_wrap=True)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g} %"
