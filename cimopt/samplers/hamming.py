"""Start designs: a random pool, and the greedy max-min Hamming selection from it.

Joint co-optimization paper, section III-C2 (Eqs. 1-2): from a pool C1 of P_H designs, repeatedly
take the one whose smallest Hamming distance to those already taken is largest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cimopt.samplers.box import GeneSpace

# After this many rounds a pool that still lacks members is filled with the least violating draws.
MAX_ROUNDS = 1000


def random_pool(
    space: GeneSpace, n: int, seed: int, precheck: Callable[[np.ndarray], np.ndarray] | None = None
) -> np.ndarray:
    """n designs, int (n, n_genes), in the authors' drawing order.

    One column at a time from NumPy's legacy generator, as many rows as are missing, keeping legal
    designs whose `precheck` amount (n,) is not positive: with that, seed 1 gives the authors' own pool.
    """
    rng = np.random.RandomState(seed % 2**32)
    pool = np.zeros((0, space.n_genes), dtype=np.int64)
    spare: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(MAX_ROUNDS):
        missing = n - len(pool)
        if missing <= 0:
            break
        drawn = np.stack([rng.randint(0, high, missing) for high in space.n_choices], axis=1).astype(np.int64)
        drawn = drawn[space.valid(drawn)]
        amount = np.zeros(len(drawn)) if precheck is None else precheck(drawn)
        pool = np.concatenate([pool, drawn[amount <= 0]])
        spare.append((amount[amount > 0], drawn[amount > 0]))
    return np.concatenate([pool, _least_violating(spare, n - len(pool))])[:n]


def _least_violating(spare: list[tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    amounts = np.concatenate([a for a, _ in spare])
    genes = np.concatenate([g for _, g in spare])
    return genes[np.argsort(amounts, kind="stable")[: max(n, 0)]]


def select_diverse(pool: np.ndarray, n: int) -> np.ndarray:
    """Rows of the pool, int (<= n,), in selection order.

    Starts from row 0; ties go to the first in pool order; duplicates of chosen rows are never
    taken, so fewer than n come back when the pool has fewer distinct designs.
    """
    if not len(pool) or n <= 0:
        return np.zeros(0, dtype=np.int64)
    chosen = [0]
    nearest = (pool != pool[0]).sum(axis=1)
    while len(chosen) < n:
        best = int(nearest.argmax())
        if nearest[best] == 0:
            break
        chosen.append(best)
        nearest = np.minimum(nearest, (pool != pool[best]).sum(axis=1))
    return np.array(chosen, dtype=np.int64)
