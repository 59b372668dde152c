"""Enumerate a whole space in chunks: the optimum, the top designs, the Pareto front, per-choice bests.

Only reductions are kept, so memory does not grow with the space. The space's order is fixed, chunks
are independent, and the state after each one is saved, so an interrupted run resumes. The speed
comes from the evaluators' stages, nothing here is special to a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.config.assemble import EvaluatorRecipe, Rooms, make_runner
from cimopt.errors import StudyConflictError
from cimopt.evaluators import Guarded
from cimopt.runners.base import Function, WorkerFailure
from cimopt.scores.objectives import Objective
from cimopt.scores.pareto import merge_front
from cimopt.space import SearchSpace

STATE = "enumeration.npz"
SAVE_EVERY = 32  # chunks between saved states


@dataclass(frozen=True)
class Reduced:
    """What is left of some designs: counts, the `top` best, the front, the best value per choice.

    `top_values` (k,) and `top_genes` (k, n_genes) are sorted; infeasible designs enter the top only
    while nothing is feasible (`top_violations` tells). `front` (f, m) are objective axes of feasible
    designs. `marginals` (n_genes, max choices): best feasible value with that choice, +inf if none.
    """

    n: int
    n_feasible: int
    n_failed: int
    top_genes: np.ndarray
    top_values: np.ndarray
    top_violations: np.ndarray
    front: np.ndarray
    front_genes: np.ndarray
    marginals: np.ndarray

    @staticmethod
    def empty(space: SearchSpace, axes: int) -> Reduced:
        genes = np.zeros((0, space.n_genes), dtype=np.int64)
        width = int(space.n_choices.max(initial=1))
        none = np.zeros(0)
        return Reduced(0, 0, 0, genes, none, none, np.zeros((0, axes)), genes, np.full((space.n_genes, width), np.inf))

    def merged(self, other: Reduced, top: int) -> Reduced:
        """Both together; the order of merging does not matter."""
        genes = np.concatenate([self.top_genes, other.top_genes])
        values = np.concatenate([self.top_values, other.top_values])
        violations = np.concatenate([self.top_violations, other.top_violations])
        best = np.lexsort((*genes.T[::-1], values, violations, np.isinf(values)))[:top]
        mine, theirs = merge_front(self.front, other.front)
        return Reduced(
            self.n + other.n, self.n_feasible + other.n_feasible, self.n_failed + other.n_failed,
            genes[best], values[best], violations[best],
            np.concatenate([self.front[mine], other.front[theirs]]),
            np.concatenate([self.front_genes[mine], other.front_genes[theirs]]),
            np.minimum(self.marginals, other.marginals),
        )  # fmt: skip


@dataclass(frozen=True)
class ReduceRecipe:
    """What a worker runs: (start, stop) of the space's order -> Reduced."""

    recipe: EvaluatorRecipe
    space: SearchSpace
    objective: Objective
    top: int

    def __call__(self) -> Function:
        evaluator = Guarded(self.recipe.chain())

        def reduce_range(item: tuple[int, int]) -> Reduced:
            genes = self.space.genes_at(*item)
            genes = genes[self.space.valid(genes)]
            if not len(genes):
                return Reduced.empty(self.space, len(self.objective.axis_names))
            metrics = evaluator.evaluate(self.space.designs(genes), self.recipe.workloads)
            return reduce(self.space, self.objective, genes, metrics, self.top)

        return reduce_range


def reduce(space: SearchSpace, objective: Objective, genes: np.ndarray, metrics: Any, top: int) -> Reduced:
    """Reduce one evaluated chunk."""
    scores = objective.score(metrics)
    value, feasible = scores.scalar, scores.feasible
    violation = np.where(scores.errors, np.inf, scores.total_violation)
    rows = np.flatnonzero(feasible)
    candidates = rows if rows.size else np.flatnonzero(np.isfinite(violation))
    best = candidates[_best(value[candidates], violation[candidates], genes[candidates], top)]
    axes = objective.axes(metrics)[rows]
    _, front = merge_front(np.zeros((0, axes.shape[1])), axes)
    return Reduced(
        len(genes), len(rows), int(scores.errors.sum()),
        genes[best], value[best], violation[best],
        axes[front], genes[rows[front]], _marginals(space, genes[rows], value[rows]),
    )  # fmt: skip


def _best(value: np.ndarray, violation: np.ndarray, genes: np.ndarray, top: int) -> np.ndarray:
    """Rows of the `top` best; a partial sort first, since chunks are large and `top` is small."""
    rows = np.arange(len(value))
    if len(rows) > 4 * top:
        # Among infeasible designs the violation decides, and one without metrics comes last.
        key = value if (violation <= 0).all() else np.where(np.isinf(value), np.inf, violation)
        rows = rows[key <= np.partition(key, top)[top]]
    return rows[np.lexsort((*genes[rows].T[::-1], value[rows], violation[rows], np.isinf(value[rows])))][:top]


def _marginals(space: SearchSpace, genes: np.ndarray, value: np.ndarray) -> np.ndarray:
    table = np.full((space.n_genes, int(space.n_choices.max(initial=1))), np.inf)
    for g in range(space.n_genes):
        np.minimum.at(table[g], genes[:, g], value)
    return table


class Enumeration:
    """One enumeration in a run folder: `run` yields the share done, `reduced` holds the result."""

    def __init__(self, rooms: Rooms, folder: Path, *, chunk: int, top: int) -> None:
        self._rooms, self._path, self._top, self._chunk = rooms, folder / STATE, top, chunk
        self._ranges = [(s, min(s + chunk, rooms.space.grid_size)) for s in range(0, rooms.space.grid_size, chunk)]
        self._done = np.zeros(len(self._ranges), dtype=bool)
        self.reduced = Reduced.empty(rooms.space, len(rooms.objective.axis_names))
        self._load()

    @property
    def n_done(self) -> int:
        """Grid points already enumerated."""
        return sum(stop - start for (start, stop), done in zip(self._ranges, self._done, strict=True) if done)

    def run(self) -> Iterator[int]:
        """Evaluate what is missing; yields the number of grid points of each finished chunk."""
        todo = np.flatnonzero(~self._done)
        recipe = ReduceRecipe(self._rooms.recipe, self._rooms.space, self._rooms.objective, self._top)
        with make_runner(self._rooms.config, size=lambda item: item[1] - item[0]) as runner:
            runner.start(recipe)
            try:
                for k, (index, part) in enumerate(runner.map([self._ranges[i] for i in todo]), 1):
                    if isinstance(part, WorkerFailure):
                        continue  # left undone: running the command again completes it
                    self.reduced = self.reduced.merged(part, self._top)
                    self._done[todo[index]] = True
                    start, stop = self._ranges[todo[index]]
                    if k % SAVE_EVERY == 0:
                        self._save()
                    yield stop - start
            finally:
                self._save()

    @property
    def complete(self) -> bool:
        return bool(self._done.all())

    def _save(self) -> None:
        temporary = self._path.with_suffix(".tmp.npz")
        identity = np.array([self._rooms.identity_hash, str(self._chunk), str(self._top)])
        np.savez(temporary, identity=identity, done=self._done, **vars(self.reduced))
        temporary.replace(self._path)

    def _load(self) -> None:
        if not self._path.exists():
            return
        with np.load(self._path) as stored:
            wanted = [self._rooms.identity_hash, str(self._chunk), str(self._top)]
            if stored["identity"].tolist() != wanted:
                raise StudyConflictError(
                    f"{self._path.parent} holds an enumeration with other settings; use a new folder or the old settings"
                )
            self._done = stored["done"]
            fields = {name: stored[name] for name in Reduced.__dataclass_fields__}
        counts = {name: int(fields[name]) for name in ("n", "n_feasible", "n_failed")}
        self.reduced = Reduced(**{**fields, **counts})
