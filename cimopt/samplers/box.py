"""What a sampler needs to know of a space, and the plainest such space: independent genes."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class GeneSpace(Protocol):
    """The part of a search space that samplers use (`cimopt.space.SearchSpace` has it)."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def n_genes(self) -> int: ...
    @property
    def n_choices(self) -> np.ndarray: ...
    @property
    def size(self) -> int: ...
    @property
    def grid_size(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    def valid(self, genes: np.ndarray) -> np.ndarray: ...
    def repair(self, genes: np.ndarray) -> np.ndarray: ...
    def key(self, genes: np.ndarray) -> np.ndarray: ...
    def genes_at(self, start: int, stop: int) -> np.ndarray: ...


class BoxSpace:
    """Independent genes 0..n-1, built from Optuna distributions in plain `study.optimize`."""

    def __init__(self, names: tuple[str, ...], n_choices: tuple[int, ...]) -> None:
        self.names = names
        self.n_choices = np.array(n_choices, dtype=np.int64)
        self.n_genes = len(names)
        self.size = self.grid_size = int(np.prod(self.n_choices, dtype=object))
        self.fingerprint = repr(list(zip(names, n_choices, strict=True)))

    def valid(self, genes: np.ndarray) -> np.ndarray:
        return np.ones(len(genes), dtype=bool)

    def repair(self, genes: np.ndarray) -> np.ndarray:
        return genes.copy()

    def key(self, genes: np.ndarray) -> np.ndarray:
        wide = self.grid_size > np.iinfo(np.int64).max
        key = np.zeros(len(genes), dtype=object if wide else np.int64)
        for i in range(self.n_genes):
            key = key * int(self.n_choices[i]) + genes[:, i]
        return key

    def genes_at(self, start: int, stop: int) -> np.ndarray:
        index = np.arange(start, stop, dtype=np.int64)
        genes = np.empty((len(index), self.n_genes), dtype=np.int64)
        for i in range(self.n_genes - 1, -1, -1):
            index, genes[:, i] = np.divmod(index, self.n_choices[i])
        return genes
