"""`cimopt search`: one study (or, with -m, a sweep of studies)."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from cimopt.commands import hydra_app
from cimopt.commands.progress import SearchProgress
from cimopt.config.assemble import Rooms, assemble, is_slow
from cimopt.config.schema import Config
from cimopt.engine.loop import GenerationStats, SearchRun, search
from cimopt.engine.sequential import check_levels, level_config, start_design
from cimopt.errors import InputError, masked
from cimopt.report import plots, summary, tables
from cimopt.report.html import write_report
from cimopt.report.result import RESULT, plain, versions, write_json
from cimopt.report.terminal import show_result
from cimopt.scores.pareto import non_dominated
from cimopt.store.ledger import PARTS
from cimopt.store.study import StoredStudy
from cimopt.store.urls import refuse_unsafe_sqlite
from cimopt.tracking import Tracker, flatten, make_tracker
from cimopt.workloads import to_yaml

RUN_ID = "mlflow_run_id"
NETWORKS = "networks"
SUMMED = ("n_evaluated", "n_feasible", "n_failed", "n_generations", "seconds")  # over the levels of a sequential search
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments: Sequence[str]) -> int:
    return hydra_app.run("search", "config", job, arguments)


def job(config: DictConfig) -> float | None:
    """One study; returns the best score, so that any Hydra sweeper can drive it."""
    warnings.filterwarnings("ignore", module="optuna", category=FutureWarning)
    checked = hydra_app.checked(config)
    _check_stores(checked)
    rooms = assemble(checked)
    _warn_of_shrinking_networks(rooms)
    folder, launch = hydra_app.output_folder(), hydra_app.launch_folder()
    if checked.search.name == "sequential":
        plan = (
            check_levels(checked.search.levels),
            start_design(rooms.space, checked.search.start, checked.search.start_values),
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(masked(OmegaConf.to_yaml(config, resolve=True)))
    _mask_hydras_files(folder)
    if checked.search.name == "sequential":
        result = _sequential(checked, rooms, folder, launch, *plan)
    else:
        result = _study(rooms, folder, launch, {})
    return result["best"]["score"] if result["best"] else None


def _warn_of_shrinking_networks(rooms: Rooms) -> None:
    """Where networks are searched and nothing rewards size, the smallest wins: rarely what is meant."""
    searched = [p.name for p in rooms.networks.parameters if p.name in rooms.space.names and p.n_choices > 1]
    products = rooms.objective.goals.values()
    rewarded = any(power < 0 for product in products for power in product.values())
    if searched and not rewarded and all(bound.min is None for bound in rooms.objective.bounds):
        sys.stderr.write(
            f"cimopt: note: {searched[0]} and what else is searched of networks is only judged by what it costs, so the "
            "smallest network wins; chain an accuracy evaluator (objective=edap_accuracy), or set a limit such as "
            "'objective.limits.network_macs={min: 3e8}' with network_size among the evaluators\n"
        )


def _check_stores(config: Config) -> None:
    """Stores that would lose data are refused before anything is made."""
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    at_once = hydra.mode == RunMode.MULTIRUN and hydra.runtime.choices.get("hydra/launcher") != "basic"
    for key, url in (("study.storage", config.study.storage), ("tracking.uri", config.tracking.uri)):
        if url is not None:
            refuse_unsafe_sqlite(url, key, many_writers=at_once)
    if config.study.storage is not None and config.study.storage == config.tracking.uri:
        raise InputError("study.storage and tracking.uri name one database; their tables clash, so give each its own")


def _mask_hydras_files(folder: Path) -> None:
    """Hydra writes the composed configuration beside a run, passwords included."""
    for path in (folder / ".hydra").glob("*.yaml"):
        text = path.read_text()
        if masked(text) != text:
            path.write_text(masked(text))


def _study(rooms: Rooms, folder: Path, launch: Path, tags: dict[str, str]) -> dict[str, Any]:
    """One study from the first design to the printed table; returns what `result.json` holds."""
    tracking = rooms.config.tracking
    tracker = make_tracker(tracking.name, tracking.uri, tracking.experiment, launch)
    listener = _Listener(SearchProgress(rooms.config.label), tracker)
    try:
        with listener.progress:
            run = search(rooms, folder, launch, listener, lambda stored: _start_tracking(tracker, stored, rooms, tags))
        result = _write(rooms, run, folder)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise InputError(
            f"no space is left for {folder} ({error.strerror}); free some and run the same command again: it continues"
        ) from error
    _finish_tracking(tracker, result, run, folder, rooms.config.report.top)
    _show(result, folder, tracking.name != "none")
    return result


def _sequential(
    config: Config, rooms: Rooms, folder: Path, launch: Path, levels: list[str], design: dict[str, Any]
) -> dict[str, Any]:
    """Level after level, each a study in its own sub-folder; the last level's result plus the path to it."""
    path: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    for number, level in enumerate(levels, 1):
        part = level_config(config, rooms.space, level, design)
        if part is None:
            continue
        place = folder / f"{number}-{level}"
        place.mkdir(exist_ok=True)
        result = _study(assemble(part), place, launch, {"cimopt.level": level})
        if result["status"] == "interrupted" or not result["best"]:
            break
        design = {name: result["best"]["design"][name] for name in rooms.space.names}
        score = result["best"]["score"] if result["status"] == "ok" else None
        counts = {key: result[key] for key in SUMMED}
        path.append({"level": level, "status": result["status"], "best_score": score, **counts, "design": design})
    if not path:
        raise InputError(f"search.levels={levels}: space '{rooms.space.name}' has no parameter at these levels")
    summed: dict[str, Any] = {key: sum(p[key] for p in path) for key in SUMMED if key != "seconds"}
    summed["seconds"] = {key: sum(p["seconds"][key] for p in path) for key in result["seconds"]}
    result = {**result, **summed, "title": config.label, "space_size": rooms.space.size, "levels": path}
    write_json(folder / RESULT, result)
    if rooms.networks.parameters and result["best"]:
        _write_networks(rooms, result["best"]["design"], folder / NETWORKS)
    tables.console().print(
        tables.plain_table(
            f"Level after level from the {config.search.start} design",
            ["level", "designs", "best feasible score"],
            [[p["level"], p["n_evaluated"], p["best_score"]] for p in path],
        )
    )
    return result


class _Listener:
    """Progress bars and MLflow curves hear the same things."""

    def __init__(self, progress: SearchProgress, tracker: Tracker) -> None:
        self.progress, self._tracker = progress, tracker

    def on_start(self, budget: int, done: int) -> None:
        self.progress.start(budget, done)

    def on_designs(self, n: int) -> None:
        self.progress.advance(n)

    def on_generation(self, stats: GenerationStats) -> None:
        self.progress.generation(stats)
        curves = {
            "gen/best": stats.best, "gen/generation_best": stats.generation_best, "gen/median": stats.generation_median,
            "gen/feasible_share": stats.feasible_share, "gen/diversity": stats.diversity,
            "gen/hypervolume": stats.hypervolume, "gen/failed": float(stats.failed), "gen/evaluated": float(stats.n_evaluated),
            "gen/evaluations_per_s": stats.evaluations_per_s,
        }  # fmt: skip
        # None means "nothing feasible yet": simply no point on the curve.
        self._tracker.metrics({k: v for k, v in curves.items() if v is not None}, stats.generation)


def _start_tracking(tracker: Tracker, stored: StoredStudy, rooms: Rooms, more: dict[str, str]) -> None:
    config = rooms.config
    tags = {
        "cimopt.space": rooms.space.name,
        "cimopt.workload": config.workload_set or "+".join(w.name for w in rooms.workloads),
        "cimopt.evaluator": "+".join(e.name for e in rooms.chain.evaluators),
        "cimopt.objective": f"{rooms.objective.name}:{rooms.objective.aggregate}",
        "cimopt.sampler": config.sampler.name,
        "cimopt.seed": str(config.seed),
        "cimopt.config_hash": rooms.identity_hash,
        "cimopt.study": stored.name,
        **_sweep_tag(),
        **{f"cimopt.version.{k}": v for k, v in _versions(rooms).items()},
        **{str(k): str(v) for k, v in config.tracking.tags.items()},
        **more,
    }
    params = {**flatten(config.identity), "space_size": rooms.space.size}
    run_id = tracker.start(config.study.name or config.label, params, tags, stored.noted(RUN_ID), _sweep_folder())
    if run_id is not None:
        stored.note(RUN_ID, run_id)


def _sweep_tag() -> dict[str, str]:
    """Runs of one sweep share this tag: the MLflow UI groups by it."""
    folder = _sweep_folder()
    return {} if folder is None else {"cimopt.sweep": folder.name}


def _sweep_folder() -> Path | None:
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    return Path(hydra.sweep.dir).absolute() if hydra.mode == RunMode.MULTIRUN else None


def _versions(rooms: Rooms) -> dict[str, str]:
    return versions({e.name: e.version for e in rooms.chain.evaluators})


def _write(rooms: Rooms, run: SearchRun, folder: Path) -> dict[str, Any]:
    """result.json, trials.parquet, plots and the page; returns the result."""
    everything = run.ledger.merged()
    result: dict[str, Any] = {
        "title": rooms.config.label, "status": "interrupted" if run.interrupted else "infeasible", "best": None, "top": [],
        "n_evaluated": 0, "n_feasible": 0, "n_failed": 0, "n_generations": len(run.history), "seed": rooms.config.seed,
        "seconds": run.seconds, "space_size": rooms.space.size, "versions": _versions(rooms), "config_hash": rooms.identity_hash,
        "fixed": list(rooms.space.parameters.fixed), "command": hydra_app.command_line("search"),
    }  # fmt: skip
    if everything is not None:
        _fill(result, rooms, run, folder)
    write_json(folder / RESULT, result)
    if rooms.networks.parameters and result["best"]:
        _write_networks(rooms, result["best"]["design"], folder / NETWORKS)
    write_report(folder / "report.html", plain(result), _plots(rooms, run, folder), result["command"])
    return plain(result)


def _write_networks(rooms: Rooms, design: dict[str, Any], folder: Path) -> None:
    """The best design's searched networks as workload files, to be trained or evaluated elsewhere."""
    folder.mkdir(exist_ok=True)
    for entry, network in zip(rooms.networks.entries, rooms.networks.at(design), strict=True):
        if entry.search:
            comment = f"The network of the best design of {rooms.config.label}."
            (folder / f"{entry.name}.yaml").write_text(to_yaml(network, comment), encoding="utf-8")


def _fill(result: dict[str, Any], rooms: Rooms, run: SearchRun, folder: Path) -> None:
    everything, detailed = run.ledger.merged(), run.ledger.detailed()
    scores = detailed.scores
    rows = summary.best_rows(scores, rooms.config.report.top)
    result["top"] = _entries(rooms, run, rows)
    feasible = int(everything.scores.feasible.sum())
    result |= {
        "best": result["top"][0] if result["top"] else None,
        "n_evaluated": len(np.unique(everything.genes, axis=0)),
        "n_feasible": feasible,
        "n_failed": int(everything.scores.errors.sum()),
    }
    if not run.interrupted:
        result["status"] = "ok" if feasible else "infeasible"
    if len(rooms.objective.goals) > 1:
        result |= _front(rooms, run)
    if not feasible and rows.size:
        result["binding_constraint"] = summary.binding_constraint(scores, int(rows[0]))
    if rooms.config.study.store == "generation":
        summary.join_trials(sorted((folder / PARTS).glob("part-*.parquet")), folder / summary.TRIALS)
        return
    sizes = np.cumsum([0, *_sizes(run)])
    generation = np.searchsorted(sizes, detailed.number, side="right") - 1
    designs = rooms.space.designs(detailed.genes)
    summary.write_trials(folder / summary.TRIALS, detailed.number, generation, designs, detailed.metrics, scores)


def _front(rooms: Rooms, run: SearchRun) -> dict[str, Any]:
    """The non-dominated feasible designs, sorted by the first goal."""
    scores = run.ledger.detailed().scores
    rows = np.flatnonzero(scores.feasible)
    front = rows[non_dominated(scores.values[rows])] if rows.size else rows
    return {
        "pareto": _entries(rooms, run, front),
        "pareto_axes": list(rooms.objective.axis_names),
        "n_pareto": len(front),
        "hypervolume": run.history[-1].hypervolume if run.history else None,
    }


def _sizes(run: SearchRun) -> list[int]:
    counts = [s.n_evaluated for s in run.history]
    return np.diff([0, *counts]).tolist()


def _entries(rooms: Rooms, run: SearchRun, rows: np.ndarray) -> list[dict[str, Any]]:
    """The chosen designs; a fast model is asked again, for the limits that trials do not store."""
    everything = run.ledger.detailed()
    designs = rooms.space.designs(everything.genes[rows])
    metrics = everything.metrics.take(rows)
    if rows.size and not is_slow(rooms.chain):
        metrics = rooms.chain.evaluate(designs, rooms.workloads)
    scores = rooms.objective.score(metrics)
    return [summary.entry(designs, metrics, scores, rooms.objective, i) for i in range(len(rows))]


def _plots(rooms: Rooms, run: SearchRun, folder: Path) -> list[Path]:
    everything = run.ledger.detailed()
    if not rooms.config.report.plots or everything is None or not run.history:
        return []
    unit = rooms.objective.unit(len(rooms.workloads))
    goals = list(rooms.objective.goals)
    made = [plots.convergence(folder / "convergence.png", run.history, unit, rooms.config.label)]
    rows = summary.best_rows(everything.scores, 1)
    if len(goals) > 1 and everything.scores.feasible.any():
        made.append(
            plots.front(folder / "front.png", everything.scores, goals, rooms.objective.units(len(rooms.workloads)))
        )
    if rows.size:
        made.append(plots.landscape(folder / "designs.png", everything.metrics, everything.scores, int(rows[0])))
    return [p for p in made if p is not None]


def _finish_tracking(tracker: Tracker, result: dict[str, Any], run: SearchRun, folder: Path, top: int) -> None:
    best = result["best"]
    final: dict[str, float | None] = {
        "n_evaluated": result["n_evaluated"], "n_feasible": result["n_feasible"], "n_failed": result["n_failed"],
        **{f"seconds.{k}": v for k, v in result["seconds"].items()},
    }  # fmt: skip
    if best is not None and result["status"] != "infeasible":
        final |= {"best_score": best["score"], **_tracked(best)}
    tracker.metrics(final)
    for rank, one in enumerate(result["top"][:top], 1):
        tracker.child(f"top {rank}", one["design"], {"best_score": one["score"], **_tracked(one)})
    files = ["config.yaml", RESULT, summary.TRIALS, "report.html", "convergence.png", "designs.png", "front.png"]
    status = "KILLED" if run.interrupted else "FINISHED"
    tracker.finish(status, [folder / f for f in files if (folder / f).exists()], _note(result))


def _tracked(one: dict[str, Any]) -> dict[str, float | None]:
    return {f"{metric}.{workload}": v for workload, values in one["metrics"].items() for metric, v in values.items()}


def _note(result: dict[str, Any]) -> str:
    """Markdown that the MLflow UI shows on the run's page."""
    best = result["best"]
    if best is None:
        return "No design was evaluated."
    head = f"**{result['status']}**: best score {tables.number(best['score'])} {best['score_unit']}\n\n| parameter | value |\n|---|---|\n"
    return head + "\n".join(f"| {tables.heading(k)} | {tables.number(v)} |" for k, v in best["design"].items())


def _show(result: dict[str, Any], folder: Path, tracked: bool) -> None:
    show_result(result, folder)
    if tracked:
        tables.console().print("Compare runs: cimopt ui")
