"""All earlier designs of a study, as arrays: what a proposal may depend on, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cimopt.scores.pareto import crowding, front_ranks


@dataclass(frozen=True)
class Archive:
    """m finished designs in trial order.

    `number` int (m,) trial numbers; `genes` int (m, n_genes); `values` (m, k) to minimise, +inf
    without metrics; `violations` (m,) total relative amount, +inf for failed designs.
    """

    number: np.ndarray
    genes: np.ndarray
    values: np.ndarray
    violations: np.ndarray

    def __post_init__(self) -> None:
        if self.values.ndim == 1:
            object.__setattr__(self, "values", self.values[:, None])

    @staticmethod
    def empty(n_genes: int, n_values: int = 1) -> Archive:
        none = np.zeros(0, np.int64)
        return Archive(none, np.zeros((0, n_genes), np.int64), np.zeros((0, n_values)), np.zeros(0))

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: np.ndarray) -> Archive:
        return Archive(self.number[rows], self.genes[rows], self.values[rows], self.violations[rows])

    def extended(self, number: np.ndarray, genes: np.ndarray, values: np.ndarray, violations: np.ndarray) -> Archive:
        """A new archive with more rows, kept in trial order."""
        new = Archive(number, genes, values, violations)
        merged = Archive(
            np.concatenate([self.number, new.number]),
            np.concatenate([self.genes, new.genes]),
            np.concatenate([self.values, new.values]) if len(self) else new.values,
            np.concatenate([self.violations, new.violations]),
        )
        return merged.take(np.argsort(merged.number, kind="stable"))

    def ranked(self, *, violations: bool = True) -> np.ndarray:
        """Rows from best to worst: by violation, then quality, then age; failed designs left out.

        Quality is the value, or with several values the non-dominated front and then the crowding
        distance (NSGA-II's order). Designs without metrics come after those with: limits on their metrics
        are unknown, so their violation is only a part of the whole. `violations=False` ranks by
        quality alone.
        """
        rows = np.flatnonzero(np.isfinite(self.violations))
        some = self.take(rows)
        missed = some.violations if violations else np.zeros(len(rows))
        blank = np.isinf(some.values).any(axis=1)
        return rows[np.lexsort((some.number, *_quality(some.values, missed, blank), missed, blank))]

    def best(self, n: int, *, violations: bool = True) -> np.ndarray:
        """`ranked()[:n]`, without sorting a long archive."""
        if self.values.shape[1] > 1:
            return self.ranked(violations=violations)[:n]
        fit = np.isfinite(self.values[:, 0]) & np.isfinite(self.violations)
        if violations:
            fit &= self.violations <= 0
        rows = np.flatnonzero(fit)
        if len(rows) < n:
            return self.ranked(violations=violations)[:n]
        limit = np.partition(self.values[rows, 0], n - 1)[n - 1]
        rows = rows[self.values[rows, 0] <= limit]
        return rows[self.take(rows).ranked(violations=violations)][:n]


def _quality(values: np.ndarray, missed: np.ndarray, blank: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sort keys, last one first in importance: the value, or (crowding, front) of comparable rows."""
    if values.shape[1] == 1:
        return (values[:, 0],)
    front = np.zeros(len(values), dtype=np.int64)
    lonely = np.zeros(len(values))
    rows = np.flatnonzero((missed <= 0) & ~blank)  # others are ordered by what they miss
    if rows.size:
        front[rows] = front_ranks(values[rows])
        for k in np.unique(front[rows]):
            members = rows[front[rows] == k]
            lonely[members] = crowding(values[members])
    return -lonely, front
