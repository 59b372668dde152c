"""Never propose a design twice: what was seen, and fresh random designs when mating runs dry."""

from __future__ import annotations

import numpy as np

from cimopt.samplers.box import GeneSpace

SMALL_GRID = 200_000  # spaces up to this size are listed to find the last unseen designs
DRAWS = 200


class Seen:
    """Designs already proposed, by their place in the space."""

    def __init__(self, space: GeneSpace, genes: np.ndarray) -> None:
        self._space = space
        self._old = np.sort(space.key(genes))  # a long archive: sorting beats a set of Python integers
        self._new: set[int] = set()

    def _known(self, keys: np.ndarray) -> np.ndarray:
        """bool (n,)"""
        if not len(self._old):
            return np.zeros(len(keys), dtype=bool)
        place = np.minimum(np.searchsorted(self._old, keys), len(self._old) - 1)
        return (self._old[place] == keys).astype(bool)

    def fresh(self, genes: np.ndarray) -> np.ndarray:
        """The valid rows not seen before, each once, order kept."""
        keys, rows = self._space.key(genes), {}
        for row in np.flatnonzero(self._space.valid(genes) & ~self._known(keys)).tolist():
            key = int(keys[row])
            if key not in self._new:
                rows.setdefault(key, row)
        return genes[list(rows.values())]

    def add_new(self, genes: np.ndarray) -> np.ndarray:
        """The same rows; they count as seen from now on."""
        found = self.fresh(genes)
        self._new.update(int(key) for key in self._space.key(found))
        return found

    def unseen_of_grid(self) -> np.ndarray:
        """Every valid design not seen yet; only for small grids."""
        genes = self._space.genes_at(0, self._space.grid_size)
        keys = self._space.key(genes)
        new = np.isin(keys, np.array(sorted(self._new), dtype=keys.dtype))
        return genes[~self._known(keys) & ~new & self._space.valid(genes)]


def unseen_designs(space: GeneSpace, seen: Seen, n: int, rng: np.random.Generator) -> np.ndarray:
    """Up to n random designs nobody proposed yet, int (<= n, n_genes); fewer when the space is used up."""
    found = [np.zeros((0, space.n_genes), dtype=np.int64)]
    missing = n
    if space.grid_size > SMALL_GRID:
        for _ in range(DRAWS):
            if missing <= 0:
                break
            new = seen.add_new(rng.integers(0, space.n_choices, size=(missing, space.n_genes)))
            found.append(new)
            missing -= len(new)
    elif missing > 0:
        left = seen.unseen_of_grid()
        found.append(seen.add_new(left[rng.permutation(len(left))[:missing]]))
    return np.concatenate(found)
