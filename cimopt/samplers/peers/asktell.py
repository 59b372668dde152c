"""Samplers of other libraries that propose a batch and must hear its result before the next one.

They keep state, so a resumed study replays them: what was evaluated before is told again from the store,
and a deterministic algorithm continues where it was.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import optuna
from optuna.samplers import RandomSampler

from cimopt.samplers.box import GeneSpace


class AskTell(RandomSampler):
    """Write `ask` and `tell`. As an Optuna sampler it is random; cimopt's loop uses the pair."""

    def __init__(self, space: GeneSpace, budget: int, seed: int) -> None:
        super().__init__(seed=seed)
        self.space, self.budget, self.seed = space, budget, seed

    @abstractmethod
    def ask(self) -> np.ndarray:
        """The next designs, int (n >= 1, n_genes), legal; an empty array ends the search early."""

    @abstractmethod
    def tell(self, genes: np.ndarray, values: np.ndarray, violations: np.ndarray) -> None:
        """Their values (n,), +inf without metrics, and total violations (n,), +inf for failed designs."""

    def legal(self, genes: np.ndarray) -> np.ndarray:
        """Rounded, in range and repaired; a design that a rule refuses becomes a random legal one."""
        whole = np.clip(np.rint(genes), 0, self.space.n_choices - 1).astype(np.int64)
        whole = self.space.repair(whole)
        bad = np.flatnonzero(~self.space.valid(whole))
        rng = np.random.default_rng([self.seed, 9, len(bad), int(whole.sum())])
        for row in bad:
            for _ in range(1000):
                drawn = rng.integers(0, self.space.n_choices)[None, :]
                if self.space.valid(drawn)[0]:
                    whole[row] = drawn[0]
                    break
        return whole

    def infer_relative_search_space(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> dict:
        return {}


def finite(values: np.ndarray, violations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for libraries that take no infinity: a design without metrics is worse than any with."""
    known = values[np.isfinite(values)]
    worst = known.max() if known.size else 1.0
    missed = violations[np.isfinite(violations)]
    most = missed.max() if missed.size else 1.0
    return np.where(np.isfinite(values), values, 2 * abs(worst) + 1), np.where(
        np.isfinite(violations), violations, 2 * most + 1
    )
