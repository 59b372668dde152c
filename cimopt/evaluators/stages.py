"""Stages: a part of a model that reads few parameters is computed once per distinct combination.

An evaluator that declares stages gets, per stage, one growing table of rows; a batch of
designs then only gathers. This is what makes a million designs a second possible, for the
search and for the exhaustive engine alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cimopt.errors import ContractError
from cimopt.evaluators import stage_cache
from cimopt.types import Designs, ParameterSet

# A direct-address index of 64 Mi entries is 256 MiB of int32; larger products are sorted instead.
MAX_INDEX = 1 << 26
# Few rows of a large product are found by their sorted keys: an index would cost more memory and time to lay out
# than the rows themselves, and a search over networks begins a table for every network.
ENTRIES_PER_ROW = 64


@dataclass(frozen=True)
class Stage:
    """One stage: `stage_<name>(params, workloads)` gets decoded `reads`, each (m,), and returns arrays (m, ...).

    A stage that does not look at the workloads says so by `per_network=False`: its rows then serve all of them.
    """

    name: str
    reads: tuple[str, ...]
    per_network: bool = True


@dataclass(frozen=True)
class StageRows:
    """One stage's result for a batch: `rows` (n,) point into compact arrays (k, ...)."""

    rows: np.ndarray
    arrays: dict[str, np.ndarray]

    def array(self, key: str) -> np.ndarray:
        """The compact array (k, ...), one row per distinct combination known so far."""
        return self.arrays[key]

    def gather(self, key: str) -> np.ndarray:
        """The array spread over the batch, (n, ...)."""
        return self.arrays[key][self.rows]


def gene_columns(parameters: ParameterSet, reads: tuple[str, ...]) -> list[int]:
    """Genes that decide the values of `reads`: their own and, for dependent ones, their parents'."""
    wanted: set[int] = set()
    for i, name in enumerate(parameters.names):
        if name in reads:
            wanted.add(i)
            if parameters.parents[i] is not None:
                wanted.add(parameters.parents[i])
    return sorted(wanted)


class KeyIndex:
    """Which row holds a key, for keys in 0..size-1: sorted keys while rows are few, a direct index later."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._keys, self._rows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        self._direct: np.ndarray | None = None

    @property
    def keys(self) -> np.ndarray:
        """Known keys, in the order of their rows."""
        known = self._keys if self._direct is None else np.flatnonzero(self._direct >= 0)
        rows = self._rows if self._direct is None else self._direct[known]
        return known[np.argsort(rows, kind="stable")]

    def rows(self, keys: np.ndarray) -> np.ndarray:
        """Rows (n,) int32, -1 where a key is unknown."""
        if self._direct is None and (len(keys) + len(self._keys)) * ENTRIES_PER_ROW > self._size:
            self._direct = np.full(self._size, -1, dtype=np.int32)
            self._direct[self._keys] = self._rows
        if self._direct is not None:
            return self._direct[keys]
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int32)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._rows[place], np.int32(-1))

    def add(self, keys: np.ndarray, first: int) -> None:
        """New keys (m,), each once, for rows first..first+m-1."""
        rows = np.arange(first, first + len(keys), dtype=np.int32)
        if self._direct is not None:
            self._direct[keys] = rows
            return
        merged = np.concatenate([self._keys, keys])
        order = np.argsort(merged, kind="stable")
        self._keys, self._rows = merged[order], np.concatenate([self._rows, rows])[order]


class StageTable:
    """Known combinations of one stage for one parameter set and one tuple of workloads."""

    def __init__(self, stage: Stage, parameters: ParameterSet) -> None:
        self.stage = stage
        self._columns = gene_columns(parameters, stage.reads)
        sizes = parameters.n_choices[self._columns]
        self._strides = np.ones(len(sizes), dtype=np.int64)
        self._strides[:-1] = np.cumprod(sizes[:0:-1])[::-1]
        self.size = int(np.prod(sizes, dtype=object)) if len(sizes) else 1
        self._index = KeyIndex(self.size) if self.size <= MAX_INDEX else None
        self._arrays: dict[str, np.ndarray] = {}
        self._used = 0
        self._kept = 0  # rows that are on disk

    def rows(self, designs: Designs, compute: Callable[[Designs], dict[str, np.ndarray]]) -> StageRows:
        """Row numbers for the batch, after computing the combinations not seen before."""
        keys = self._keys(designs.genes)
        if self._index is None:  # too many combinations to index: no memory across batches
            _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            return StageRows(inverse, self._checked(compute(designs.take(first)), len(first)))
        rows = self._index.rows(keys)
        missing = np.flatnonzero(rows < 0)
        if missing.size:
            new_keys, first = np.unique(keys[missing], return_index=True)
            self._append(self._checked(compute(designs.take(missing[first])), len(first)), len(first))
            self._index.add(new_keys, self._used - len(first))
            rows = self._index.rows(keys)
        return StageRows(rows, {k: a[: self._used] for k, a in self._arrays.items()})

    @property
    def unsaved(self) -> int:
        """Rows computed since the table was read or saved."""
        return self._used - self._kept

    def load(self, path: Path) -> None:
        """Take in rows that an earlier process kept."""
        found = stage_cache.read(path) if self._index is not None else None
        if found is None or (len(found[0]) and found[0].max() >= self.size):
            return
        keys, arrays = found
        self._append(arrays, len(keys))
        self._index.add(keys, 0)
        self._kept = len(keys)

    def save(self, path: Path) -> None:
        """Keep every row for later processes."""
        stage_cache.write(path, self._index.keys, {k: a[: self._used] for k, a in self._arrays.items()})
        self._kept = self._used

    def _keys(self, genes: np.ndarray) -> np.ndarray:
        keys = np.zeros(len(genes), dtype=np.int64)
        for column, stride in zip(self._columns, self._strides, strict=True):
            keys += genes[:, column].astype(np.int64) * stride
        return keys

    def _checked(self, arrays: dict[str, np.ndarray], m: int) -> dict[str, np.ndarray]:
        for key, array in arrays.items():
            if len(array) != m:
                raise ContractError(
                    f"stage '{self.stage.name}' gave '{key}' with {len(array)} rows for {m} combinations"
                )
        return arrays

    def _append(self, arrays: dict[str, np.ndarray], m: int) -> None:
        """Grow by doubling, so that n additions cost O(n) copies."""
        for key, new in arrays.items():
            old = self._arrays.get(key)
            if old is None or len(old) < self._used + m:
                capacity = max(self._used + m, 2 * self._used)
                grown = np.empty((min(capacity, self.size), *new.shape[1:]), dtype=new.dtype)
                if old is not None:
                    grown[: self._used] = old[: self._used]
                self._arrays[key] = grown
            self._arrays[key][self._used : self._used + m] = new
        self._used += m
