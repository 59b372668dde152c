"""The non-modified genetic algorithm of the paper's comparisons, plain or with Hamming-diverse start designs.

Reference: the group's earlier work ([44] there), whose released scripts use SBX(1.0, 3), PM(1.0, 3), binary
tournaments, elitist survival and a random start population whose weights fit (reference notes call this
reading inferred). As there, duplicates are removed against the population and among offspring, not against
everything seen before: a design that died out may be proposed, and paid for, again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt.samplers.archive import Archive
from cimopt.samplers.box import GeneSpace
from cimopt.samplers.four_phase import MATING_ROUNDS, Phase, Precheck, mate
from cimopt.samplers.generational import GenerationalSampler
from cimopt.samplers.hamming import random_pool, select_diverse
from cimopt.samplers.unseen import Seen, unseen_designs


@dataclass(frozen=True)
class PlainGASettings:
    """`start` designs in generation 0, then `population` a generation until `budget`."""

    start: int = 40
    population: int = 40
    hamming: bool = False
    pool: int = 40
    budget: int = 2100
    p_c: float = 1.0
    eta_c: float = 3.0
    p_m: float = 1.0
    eta_m: float = 3.0

    def __post_init__(self) -> None:
        for key in ("start", "population", "pool", "budget"):
            if getattr(self, key) < 2:
                raise InputError(f"sampler.settings.{key}={getattr(self, key)} must be at least 2")
        if self.start > self.pool:
            raise InputError(f"sampler.settings.start={self.start} exceeds the pool={self.pool} it is chosen from")

    @property
    def phase(self) -> Phase:
        return Phase(1, self.p_c, self.eta_c, self.p_m, self.eta_m)


class PlainGASampler(GenerationalSampler):
    """One phase, population carried by elitist survival; a design may come back after it died out."""

    multi_objective = True

    def __init__(
        self, space: GeneSpace | None = None, *, seed: int = 1, settings: PlainGASettings | None = None,
        precheck: Precheck | None = None,
    ) -> None:  # fmt: skip
        super().__init__(space, seed=seed)
        self.settings, self._precheck = settings or PlainGASettings(), precheck

    @property
    def n_generations(self) -> int:
        return 1 + -(-(self.settings.budget - self.settings.start) // self.settings.population)

    def size_of(self, generation: int) -> int:
        if generation == 0:
            return self.settings.start
        left = self.settings.budget - self.settings.start - (generation - 1) * self.settings.population
        return min(self.settings.population, left) if left > 0 else self.settings.population

    def propose(self, space: GeneSpace, generation: int, archive: Archive) -> np.ndarray:
        size = self.size_of(generation)
        rng = np.random.default_rng([self.seed, 1, generation])
        if generation == 0:
            return self._start(space, size, rng)
        parents = archive.take(archive.best(self.settings.population))
        seen = Seen(space, parents.genes)
        children: list[np.ndarray] = []
        missing = size
        for _ in range(MATING_ROUNDS if len(parents) >= 2 else 0):
            new = seen.add_new(mate(space, self.settings.phase, parents, missing, rng))[:missing]
            children.append(new)
            missing -= len(new)
            if missing == 0:
                break
        children.append(unseen_designs(space, seen, missing, rng))
        return np.concatenate(children)

    def _start(self, space: GeneSpace, size: int, rng: np.random.Generator) -> np.ndarray:
        pool = random_pool(space, self.settings.pool, self.seed, self._precheck)
        rows = select_diverse(pool, size) if self.settings.hamming else np.arange(size)
        seen = Seen(space, np.zeros((0, space.n_genes), dtype=np.int64))
        chosen = seen.add_new(pool[rows])
        return np.concatenate([chosen, unseen_designs(space, seen, size - len(chosen), rng)])


def build(space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Precheck | None = None) -> PlainGASampler:
    """The entry point; unknown keys and wrong values are InputErrors."""
    known = [f.name for f in fields(PlainGASettings)]
    for key in settings:
        if key not in known:
            raise unknown_name("key in sampler.settings", key, known)
    return PlainGASampler(space, seed=seed, settings=PlainGASettings(**settings), precheck=precheck)
