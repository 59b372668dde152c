"""Samplers against a known optimum: the same loop, space, evaluator and budget for every one.

A *run* is one (space, sampler, seed). Runs are independent, go to the runner's workers, and are kept as
lines of a file, so an interrupted bench completes what is missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.config.assemble import Rooms, assemble
from cimopt.config.schema import parse
from cimopt.engine.loop import search_in_memory
from cimopt.errors import CimoptError, InputError
from cimopt.runners.base import Function

RUNS = "bench.jsonl"
EXACT = 1e-9  # relative: the optimum counts as found
BOOTSTRAP = 2000


@dataclass(frozen=True)
class Task:
    """One run to do."""

    space: str
    sampler: str
    seed: int


@dataclass(frozen=True)
class BenchRecipe:
    """Plain configurations, from which a worker builds rooms once per space and sampler."""

    configs: Mapping[tuple[str, str], Mapping[str, Any]]

    def __call__(self) -> Function:
        spaces: dict[str, Rooms] = {}

        def run(task: Task) -> dict[str, Any]:
            config = parse({**self.configs[task.space, task.sampler], "seed": task.seed})
            if task.space not in spaces:
                spaces[task.space] = assemble(config)
            return run_once(replace(spaces[task.space], config=config), task)

        return run


def run_once(rooms: Rooms, task: Task) -> dict[str, Any]:
    """One search: where the best feasible score fell, how many designs were feasible and unique, seconds."""
    began = time.perf_counter()
    line: dict[str, Any] = {"space": task.space, "sampler": task.sampler, "seed": task.seed}
    try:
        found = search_in_memory(rooms)
    except (CimoptError, ValueError, RuntimeError, ArithmeticError) as error:  # a peer that gives up is a result
        return {**line, "error": f"{type(error).__name__}: {error}", "steps": [], "evaluations": 0}
    everything = found.ledger.merged()
    value = np.where(everything.scores.feasible, everything.scores.scalar, np.inf)
    best = np.minimum.accumulate(value)
    drops = np.flatnonzero(np.diff(best, prepend=np.inf) < 0)
    return {
        **line,
        "steps": [[int(i) + 1, float(best[i])] for i in drops],  # (evaluations, best so far)
        "evaluations": len(value),
        "unique": len(np.unique(everything.genes, axis=0)),
        "feasible": int(everything.scores.feasible.sum()),
        "seconds": time.perf_counter() - began,
        "sampling_s": found.seconds["sampling"],
    }


def read_runs(path: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Runs done so far; a torn last line is forgotten."""
    done: dict[tuple[str, str, int], dict[str, Any]] = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        done[line["space"], line["sampler"], line["seed"]] = line
    return done


def run_missing(path: Path, tasks: Sequence[Task], runner: Any) -> Iterator[dict[str, Any]]:
    """Do what the file lacks; every finished run is appended at once and yielded."""
    known = read_runs(path)
    missing = [t for t in tasks if (t.space, t.sampler, t.seed) not in known]
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write("\n" if torn and path.stat().st_size else "")
        for index, line in runner.map(missing):
            if not isinstance(line, dict):  # a lost worker: the run stays missing
                continue
            file.write(json.dumps(line) + "\n")
            file.flush()
            yield {**line, "task": index}


# ------------------------------------------------------------------- figures
def at(steps: Sequence[Sequence[float]], evaluations: np.ndarray) -> np.ndarray:
    """Best so far after each number of evaluations, (m,); +inf before the first feasible design."""
    best = np.full(len(evaluations), np.inf)
    for n, value in steps:
        best[evaluations >= n] = value
    return best


def first_within(steps: Sequence[Sequence[float]], limit: float) -> int | None:
    """Evaluations until the best is at most `limit`; None if it never was."""
    return next((int(n) for n, value in steps if value <= limit), None)


def summarise(lines: Sequence[Mapping[str, Any]], optimum: float) -> dict[str, Any]:
    """Figures of one sampler on one space over its seeds; medians and means over runs that found anything."""
    finals = np.array([line["steps"][-1][1] if line["steps"] else np.inf for line in lines])
    found = finals[np.isfinite(finals)]
    exact = [first_within(line["steps"], optimum * (1 + EXACT)) for line in lines]
    near = [first_within(line["steps"], optimum * 1.01) for line in lines]
    n = len(lines)
    return {
        "runs": n,
        "none_feasible": int(n - len(found)),
        "errors": sorted({line["error"] for line in lines if line.get("error")}),
        "mean": _or_none(found.mean) if len(found) else None,
        "mean_ci95": mean_interval(found),
        "std": float(found.std(ddof=1)) if len(found) > 1 else None,
        "best": float(found.min()) if len(found) else None,
        "worst": float(found.max()) if len(found) else None,
        # Runs that found nothing count as infinitely bad in the median.
        "median_regret": _finite(float(np.median(finals)) / optimum - 1),
        "mean_regret": float(found.mean() / optimum - 1) if len(found) else None,
        "found_optimum": sum(e is not None for e in exact),
        "found_optimum_ci95": share_interval(sum(e is not None for e in exact), n),
        "within_1_percent": sum(e is not None for e in near),
        "median_evaluations_to_optimum": _median(exact),
        "median_evaluations_to_1_percent": _median(near),
        "mean_evaluations": float(np.mean([line["evaluations"] for line in lines])),
        "mean_unique": float(np.mean([line.get("unique", 0) for line in lines])),
        "mean_seconds": float(np.mean([line.get("seconds", 0.0) for line in lines])),
    }


def _or_none(figure: Any) -> float | None:
    return _finite(float(figure()))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _median(counts: Sequence[int | None]) -> float | None:
    """Median over all runs; None when half of them never got there."""
    values = np.array([np.inf if c is None else c for c in counts])
    return _finite(float(np.median(values)))


def mean_interval(values: np.ndarray) -> list[float] | None:
    """95 % bootstrap interval of the mean (fixed seed)."""
    if len(values) < 2:
        return None
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), size=(BOOTSTRAP, len(values)))].mean(axis=1)
    return [float(v) for v in np.quantile(means, [0.025, 0.975])]


def share_interval(k: int, n: int) -> list[float]:
    """95 % Wilson interval of k of n."""
    z = 1.959964
    middle = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * np.sqrt(k * (n - k) / n + z * z / 4)
    return [float(max(0.0, middle - half)), float(min(1.0, middle + half))]


def check_options(samplers: Sequence[str], spaces: Sequence[str], seeds: Any) -> None:
    """One sentence for an empty list or a wrong number of seeds."""
    for key, listed in (("samplers", samplers), ("spaces", spaces)):
        if not listed or len(set(listed)) != len(listed):
            raise InputError(f"bench.{key}={list(listed)} must name each of at least one once")
    if type(seeds) is not int or seeds < 1:
        raise InputError(f"bench.seeds={seeds!r} must be a whole number >= 1")
