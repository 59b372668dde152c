"""What a search has evaluated so far: everything, or (for large studies) only what later steps need.

`study.store=full` keeps every design with its metrics. `generation` and `best` keep genes, values and
amounts in compact arrays plus the best designs whole; the arrays also live in
`<run>/generations/part-<first number>.npz`, one file per step, from which a killed run continues.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cimopt.samplers.archive import Archive
from cimopt.scores.objectives import Scores
from cimopt.scores.pareto import non_dominated
from cimopt.types import Metrics

PARTS = "generations"
KEPT = 100  # whole designs in a compact ledger, at least


@dataclass(frozen=True)
class Batch:
    """Finished designs of one step: trial numbers (n,), genes (n, n_genes), their metrics and scores."""

    number: np.ndarray
    genes: np.ndarray
    metrics: Metrics
    scores: Scores

    def take(self, rows: np.ndarray) -> Batch:
        scores = Scores(
            self.scores.values[rows], {k: v[rows] for k, v in self.scores.violations.items()}, self.scores.errors[rows]
        )
        return Batch(self.number[rows], self.genes[rows], self.metrics.take(rows), scores)


@dataclass
class Ledger:
    """Everything evaluated so far, in trial order."""

    batches: list[Batch] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        self.batches.append(batch)

    def merged(self) -> Batch | None:
        """One batch of everything, sorted by trial number; None when empty."""
        if not self.batches:
            return None
        if len(self.batches) > 1:
            self.batches = [_concat(self.batches)]
        return self.batches[0]

    def detailed(self) -> Batch | None:
        """The designs whose metrics are held: all of them here, the best ones in a compact ledger."""
        return self.merged()

    def archive(self, n_genes: int) -> Archive:
        everything = self.merged()
        if everything is None:
            return Archive.empty(n_genes)
        scores = everything.scores
        violations = np.where(scores.errors, np.inf, scores.total_violation)
        return Archive(everything.number, everything.genes, scores.values, violations)


def _concat(batches: list[Batch]) -> Batch:
    number = np.concatenate([b.number for b in batches])
    order = np.argsort(number, kind="stable")
    metrics = Metrics.concat([b.metrics for b in batches]).take(order)
    keys = dict.fromkeys(k for b in batches for k in b.scores.violations)
    violations = {
        k: np.concatenate([b.scores.violations.get(k, np.zeros(len(b.number))) for b in batches])[order] for k in keys
    }
    scores = Scores(
        np.concatenate([b.scores.values for b in batches])[order], violations,
        np.concatenate([b.scores.errors for b in batches])[order],
    )  # fmt: skip
    return Batch(number[order], np.concatenate([b.genes for b in batches])[order], metrics, scores)


class CompactLedger(Ledger):
    """About 50 bytes a design, whatever the model: no metrics but those of the best designs."""

    def __init__(self, folder: Path, write_table: Callable[[Path, Batch], None] | None = None) -> None:
        """`write_table` is called with the path of a step's whole table (study.store=generation)."""
        super().__init__()
        self._folder, self._write_table = folder / PARTS, write_table
        self._best: Batch | None = None

    def add(self, batch: Batch) -> None:
        """Keep the batch; its file is the moment from which it counts as done."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._write_table is not None:
            self._write_table(self._part(batch, "parquet"), batch)
        self._write(batch)
        self._hold(batch)

    def keeps(self, batch: Batch) -> Batch:
        """Those designs of the batch that would be among the best so far, whole."""
        joined = batch if self._best is None else _concat([self._best, batch])
        chosen = joined.take(_best(joined.scores))
        return batch.take(np.flatnonzero(np.isin(batch.number, chosen.number)))

    def detailed(self) -> Batch | None:
        return self._best

    def resume(self, kept: Batch | None) -> None:
        """Continue from the parts on disk; `kept` are the best designs that the study holds whole."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("part-*.npz")):
            with np.load(path, allow_pickle=False) as part:
                self.batches.append(_bare(*(part[k] for k in ("number", "genes", "values", "amounts", "errors"))))
        everything = self.merged()
        if kept is not None and everything is not None:
            # A step that was cut off before its file was written is evaluated again, whole.
            done = np.flatnonzero(np.isin(kept.number, everything.number))
            self._best = kept.take(done) if done.size else None

    def _hold(self, batch: Batch) -> None:
        joined = batch if self._best is None else _concat([self._best, batch])
        self._best = joined.take(_best(joined.scores))
        scores = batch.scores
        self.batches.append(_bare(batch.number, batch.genes, scores.values, scores.total_violation, scores.errors))

    def _write(self, batch: Batch) -> None:
        path = self._part(batch, "npz")
        temporary = path.with_name("." + path.name)
        scores = batch.scores
        with temporary.open("wb") as file:
            np.savez(
                file, number=batch.number, genes=batch.genes.astype(np.int16), values=scores.values,
                amounts=scores.total_violation, errors=scores.errors,
            )  # fmt: skip
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def _part(self, batch: Batch, kind: str) -> Path:
        return self._folder / f"part-{int(batch.number[0]):012d}.{kind}"


def _bare(
    number: np.ndarray, genes: np.ndarray, values: np.ndarray, amounts: np.ndarray, errors: np.ndarray
) -> Batch:  # fmt: skip
    """A batch without metrics; its rows have no reason, `scores` alone says what they got."""
    metrics = Metrics({}, (), np.zeros(len(number), np.int16))
    return Batch(number, genes.astype(np.int16), metrics, Scores(values, {"limits": amounts}, errors))


def _best(scores: Scores) -> np.ndarray:
    """Rows to keep whole: the best KEPT by score, and the front when there are several goals."""
    feasible = np.flatnonzero(scores.feasible)
    if feasible.size:
        rows = feasible[np.argsort(scores.scalar[feasible], kind="stable")][:KEPT]
    else:
        some = np.flatnonzero(~scores.errors)
        value = scores.scalar[some]
        rows = some[np.lexsort((value, scores.total_violation[some], np.isinf(value)))][:KEPT]
    if scores.values.shape[1] > 1 and feasible.size:
        rows = np.union1d(rows, feasible[non_dominated(scores.values[feasible])])
    return np.sort(rows)
