"""Variation on gene indices: simulated binary crossover, polynomial mutation, tournaments.

Genes are integers 0..n-1 treated as reals, varied, rounded half-to-even and clipped, as in the
joint co-optimization paper (section III-C2, its [55, 56]). The distributions are those of
Deb's bounded SBX and PM with pymoo's defaults (probability per variable 0.5 and
min(0.5, 1/n_genes)); pymoo itself is only the tests' oracle.
"""

from __future__ import annotations

import numpy as np

CLOSE = 1e-14  # parents nearer than this have no spread to recombine


def sbx(
    parents: np.ndarray, n_choices: np.ndarray, *, eta: float, probability: float, rng: np.random.Generator,
    per_gene: float = 0.5,
) -> np.ndarray:  # fmt: skip
    """Children of m pairs, real (2, m, n_genes), within the bounds; `parents` is (2, m, n_genes).

    `probability` is the share of pairs that recombine, `per_gene` the share of genes within one.
    Equal parents and single-choice genes are copied, so nothing divides by zero.
    """
    first, second = parents.astype(float)
    upper = np.broadcast_to(n_choices - 1.0, first.shape)
    pair = rng.random((len(first), 1)) < probability
    crossed = pair & (rng.random(first.shape) < per_gene) & (np.abs(first - second) > CLOSE) & (upper > 0)
    low, high = np.minimum(first, second), np.maximum(first, second)
    gap = np.where(crossed, high - low, 1.0)
    u = rng.random(first.shape)
    middle = 0.5 * (low + high)
    near_low = middle - 0.5 * gap * _spread(1 + 2 * low / gap, u, eta)
    near_high = middle + 0.5 * gap * _spread(1 + 2 * (upper - high) / gap, u, eta)
    swap = rng.random(first.shape) < 0.5
    # Each parent keeps the child on its side, unless swapped.
    to_low = (first <= second) ^ swap
    one = np.where(crossed, np.where(to_low, near_low, near_high), first)
    two = np.where(crossed, np.where(to_low, near_high, near_low), second)
    return np.clip(np.stack([one, two]), 0.0, upper)


def _spread(beta: np.ndarray, u: np.ndarray, eta: float) -> np.ndarray:
    """Deb's bounded spread factor for distance-to-bound ratio `beta` and uniform `u`."""
    power = 1.0 / (eta + 1.0)
    alpha = 2.0 - beta ** -(eta + 1.0)
    inside = u <= 1.0 / alpha
    return np.where(inside, u * alpha, 1.0 / np.where(inside, 1.0, 2.0 - u * alpha)) ** power


def polynomial_mutation(
    genes: np.ndarray, n_choices: np.ndarray, *, eta: float, probability: float, rng: np.random.Generator,
    per_gene: float | None = None,
) -> np.ndarray:  # fmt: skip
    """Mutants, real (m, n_genes), within the bounds. `probability` is the share of individuals touched."""
    upper = np.broadcast_to(n_choices - 1.0, genes.shape)
    share = min(0.5, 1.0 / max(genes.shape[1], 1)) if per_gene is None else per_gene
    touched = (rng.random((len(genes), 1)) < probability) & (rng.random(genes.shape) < share) & (upper > 0)
    span = np.where(upper > 0, upper, 1.0)
    u = rng.random(genes.shape)
    power = 1.0 / (eta + 1.0)
    down = (2 * u + (1 - 2 * u) * (1 - genes / span) ** (eta + 1)) ** power - 1
    up = 1 - (2 * (1 - u) + 2 * (u - 0.5) * (1 - (upper - genes) / span) ** (eta + 1)) ** power
    moved = genes + np.where(u <= 0.5, down, up) * span
    return np.clip(np.where(touched, moved, genes), 0.0, upper)


def to_genes(values: np.ndarray, n_choices: np.ndarray) -> np.ndarray:
    """Round half-to-even to legal gene indices, int64."""
    return np.clip(np.rint(values), 0, n_choices - 1).astype(np.int64)


def tournament(rank: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n winners of binary tournaments, int (n,): indices into `rank` (lower is better).

    Contestants come from whole permutations, so everyone competes equally often; equal ranks are
    decided by chance.
    """
    rounds = -(-2 * n // len(rank))
    contestants = np.concatenate([rng.permutation(len(rank)) for _ in range(rounds)])[: 2 * n].reshape(n, 2)
    left, right = rank[contestants[:, 0]], rank[contestants[:, 1]]
    first_wins = np.where(left == right, rng.random(n) < 0.5, left < right)
    return np.where(first_wins, contestants[:, 0], contestants[:, 1])
