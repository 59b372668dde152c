"""All earlier designs of a study, as arrays: what a proposal may depend on, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Archive:
    """m finished designs in trial order.

    `number` int (m,) trial numbers; `genes` int (m, n_genes); `values` (m,) to minimise, +inf
    without metrics; `violations` (m,) total relative amount, +inf for failed designs.
    """

    number: np.ndarray
    genes: np.ndarray
    values: np.ndarray
    violations: np.ndarray

    @staticmethod
    def empty(n_genes: int) -> Archive:
        return Archive(np.zeros(0, np.int64), np.zeros((0, n_genes), np.int64), np.zeros(0), np.zeros(0))

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: np.ndarray) -> Archive:
        return Archive(self.number[rows], self.genes[rows], self.values[rows], self.violations[rows])

    def extended(self, number: np.ndarray, genes: np.ndarray, values: np.ndarray, violations: np.ndarray) -> Archive:
        """A new archive with more rows, kept in trial order."""
        merged = Archive(
            np.concatenate([self.number, number]), np.concatenate([self.genes, genes]),
            np.concatenate([self.values, values]), np.concatenate([self.violations, violations]),
        )  # fmt: skip
        return merged.take(np.argsort(merged.number, kind="stable"))

    def ranked(self) -> np.ndarray:
        """Rows from best to worst: by violation, then value, then age; failed designs left out.

        Designs without metrics come after those with: limits on their metrics are unknown, so their
        violation is only a part of the whole.
        """
        order = np.lexsort((self.number, self.values, self.violations, np.isinf(self.values)))
        return order[np.isfinite(self.violations[order])]
