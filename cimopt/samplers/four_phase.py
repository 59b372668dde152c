"""The four-phase genetic algorithm with Hamming-diverse start designs.

After the joint co-optimization paper (arXiv 2603.03880, section III-C2, Table IV) and its
released scripts. Generation 0 is P_E designs chosen from a pool of P_H; then every phase runs
`generations` of P offspring: binary tournaments, SBX, polynomial mutation on gene indices,
rounding, elitist survival by (violation, value).

What the released code does and this does not:

- failed designs scored 0 and led the ranking; here a failed design is never a parent;
- each phase started from designs ranked by the last workload alone (a closure variable); here the
  joint score ranks;
- cached designs were re-scored with the last workload only; here a score never changes;
- a phase short of feasible designs was filled from a list with repeats; here members are unique;
- upper bounds left the last list entries out of reach; here every choice can be drawn;
- constraint amounts were raw cell counts, dwarfing the area in cm2; here amounts are relative;
- `n_gen` counted the start population, so 9 offspring batches ran per phase; here 10 do;
- re-proposed designs used up evaluations; here no design is ever proposed twice;
- the seed was re-applied at every phase; here it derives from (seed, generation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt.samplers.archive import Archive
from cimopt.samplers.box import GeneSpace
from cimopt.samplers.generational import GenerationalSampler
from cimopt.samplers.hamming import random_pool, select_diverse
from cimopt.samplers.operators import polynomial_mutation, sbx, to_genes, tournament
from cimopt.samplers.unseen import Seen, unseen_designs

Precheck = Callable[[np.ndarray], np.ndarray]
WIDE_ETA = 3.0  # Table IV's exploration phase
MATING_ROUNDS = 100  # retries before the rest of a generation is filled with unseen random designs


@dataclass(frozen=True)
class Phase:
    """One row of Table IV: crossover and mutation probabilities and distribution indices."""

    generations: int
    p_c: float
    eta_c: float
    p_m: float
    eta_m: float

    def __post_init__(self) -> None:
        if self.generations < 0:
            raise InputError(f"sampler.phases: generations={self.generations} must be >= 0")
        for key in ("p_c", "p_m"):
            if not 0 <= getattr(self, key) <= 1:
                raise InputError(f"sampler.phases: {key}={getattr(self, key)} must lie in 0..1")
        for key in ("eta_c", "eta_m"):
            if getattr(self, key) < 0:
                raise InputError(f"sampler.phases: {key}={getattr(self, key)} must be >= 0")


TABLE_IV = (
    Phase(10, p_c=1.0, eta_c=3, p_m=1.0, eta_m=3),
    Phase(10, p_c=0.9, eta_c=7, p_m=0.5, eta_m=7),
    Phase(10, p_c=1.0, eta_c=15, p_m=0.2, eta_m=15),
    Phase(10, p_c=1.0, eta_c=25, p_m=0.05, eta_m=25),
)


@dataclass(frozen=True)
class FourPhaseSettings:
    """`pool` = P_H, `start` = P_E, `population` = P_GA; the defaults are the paper's.

    `start_by_score_only`: the first phase's members are the lowest scores, limits ignored (paper), else
    feasibility counts from the beginning. `precheck_offspring`: children that the cheap precheck
    refuses are bred again instead of being evaluated; the paper filters the start pool only.
    `widen_after`: mating rounds after which children mutate widely (every second gene, eta 3), because
    everything near the parents has been seen; None: never, as in the paper. For ablations: `hamming=False`
    takes the pool's first designs, `unique=False` lets designs return that are not among the parents,
    `amounts=False` knows only whether a design is feasible, not by how much it is not.
    """

    pool: int = 1000
    start: int = 500
    population: int = 40
    phases: tuple[Phase, ...] = TABLE_IV
    start_by_score_only: bool = True
    precheck_offspring: bool = False
    widen_after: int | None = None
    hamming: bool = True
    unique: bool = True
    amounts: bool = True

    def __post_init__(self) -> None:
        for key in ("pool", "start", "population"):
            if getattr(self, key) < 2:
                raise InputError(f"sampler.{key}={getattr(self, key)} must be at least 2")
        if self.start > self.pool:
            raise InputError(f"sampler.start={self.start} exceeds sampler.pool={self.pool} it is chosen from")

    @property
    def n_generations(self) -> int:
        return sum(phase.generations for phase in self.phases)

    def phase_of(self, generation: int) -> tuple[int, int]:
        """(index of the phase, its first generation) of offspring generation >= 1."""
        first = 1
        for index, phase in enumerate(self.phases):
            if generation < first + phase.generations:
                return index, first
            first += phase.generations
        return len(self.phases) - 1, first - self.phases[-1].generations


def propose(
    space: GeneSpace, settings: FourPhaseSettings, *, seed: int, generation: int, archive: Archive,
    precheck: Precheck | None = None,
) -> np.ndarray:  # fmt: skip
    """The designs of one generation, int (<= size, n_genes): a pure function of its arguments.

    `archive` holds all earlier generations. `precheck(genes) -> (n,)` gives cheap violation amounts
    and shapes the start pool. Fewer rows than asked mean that the space is used up.
    """
    if generation == 0:
        return _start(space, settings, seed, Seen(space, archive.genes), precheck)
    rng = np.random.default_rng([seed, 1, generation])
    if not settings.amounts:
        missed = np.where(np.isfinite(archive.violations), np.sign(archive.violations), np.inf)
        archive = Archive(archive.number, archive.genes, archive.values, missed)
    parents = _population(settings, generation, archive)
    seen = Seen(space, archive.genes if settings.unique else parents.genes)
    phase = settings.phases[settings.phase_of(generation)[0]]
    children: list[np.ndarray] = []
    missing = settings.population
    if len(parents) >= 2:
        for round_ in range(MATING_ROUNDS):
            wide = settings.widen_after is not None and round_ >= settings.widen_after
            bred = mate(space, phase, parents, missing, rng, wide=wide)
            # Only legal children that are new are worth a precheck.
            new = seen.add_new(_accepted(seen.fresh(bred), settings, precheck))[:missing]
            children.append(new)
            missing -= len(new)
            if missing == 0:
                break
    children.append(unseen_designs(space, seen, missing, rng))
    return np.concatenate(children)


def _start(
    space: GeneSpace, settings: FourPhaseSettings, seed: int, seen: Seen, precheck: Precheck | None
) -> np.ndarray:
    pool = random_pool(space, settings.pool, seed, precheck)
    chosen = seen.add_new(pool[select_diverse(pool, settings.start)] if settings.hamming else pool[: settings.start])
    rng = np.random.default_rng([seed, 0])
    # A small or tightly limited space has too few distinct pool members: the rest is any unseen design.
    return np.concatenate([chosen, unseen_designs(space, seen, settings.start - len(chosen), rng)])


def _population(settings: FourPhaseSettings, generation: int, archive: Archive) -> Archive:
    """The (mu + lambda) survivors: best `population` of the phase's start members and its offspring."""
    index, first = settings.phase_of(generation)
    boundary = settings.start + (first - 1) * settings.population
    earlier = np.flatnonzero(archive.number < boundary)
    members = _phase_start(
        archive, earlier, settings.population, by_score_only=settings.start_by_score_only and index == 0
    )
    offspring = np.flatnonzero(archive.number >= boundary)
    pool = archive.take(np.concatenate([members, offspring]))
    return pool.take(pool.best(settings.population))


def _phase_start(archive: Archive, rows: np.ndarray, n: int, *, by_score_only: bool) -> np.ndarray:
    """Start members of a phase: the lowest scores; after the first phase feasible ones come first."""
    some = archive.take(rows)
    # The paper ranks the start designs by score alone, limits ignored.
    return rows[some.best(n, violations=not by_score_only)]


def _accepted(genes: np.ndarray, settings: FourPhaseSettings, precheck: Precheck | None) -> np.ndarray:
    """The children worth evaluating."""
    if not settings.precheck_offspring or precheck is None or not len(genes):
        return genes
    return genes[precheck(genes) <= 0]


def mate(
    space: GeneSpace, phase: Phase, parents: Archive, n: int, rng: np.random.Generator, *, wide: bool = False
) -> np.ndarray:
    """About n children (an even number), legal genes, duplicates possible; `wide` mutates strongly."""
    rank = np.empty(len(parents), dtype=np.int64)
    rank[parents.ranked()] = np.arange(len(parents))
    pairs = -(-n // 2)
    winners = tournament(rank, 2 * pairs, rng).reshape(2, pairs)
    crossed = sbx(parents.genes[winners], space.n_choices, eta=phase.eta_c, probability=phase.p_c, rng=rng)
    genes = to_genes(crossed.reshape(-1, space.n_genes), space.n_choices)
    strength = (
        {"eta": WIDE_ETA, "probability": 1.0, "per_gene": 0.5}
        if wide
        else {"eta": phase.eta_m, "probability": phase.p_m}
    )
    mutated = polynomial_mutation(genes, space.n_choices, rng=rng, **strength)
    return space.repair(to_genes(mutated, space.n_choices))


class FourPhaseSampler(GenerationalSampler):
    """The four-phase GA as an Optuna sampler: in cimopt's loop and in plain `study.optimize`.

    With several values, survivors and tournaments follow non-dominated fronts and crowding.
    """

    multi_objective = True

    def __init__(
        self, space: GeneSpace | None = None, *, seed: int = 1, settings: FourPhaseSettings | None = None,
        precheck: Precheck | None = None,
    ) -> None:  # fmt: skip
        super().__init__(space, seed=seed)
        self.settings = settings or FourPhaseSettings()
        self._precheck = precheck

    @property
    def n_generations(self) -> int:
        return 1 + self.settings.n_generations

    def size_of(self, generation: int) -> int:
        return self.settings.start if generation == 0 else self.settings.population

    def propose(self, space: GeneSpace, generation: int, archive: Archive) -> np.ndarray:
        return propose(
            space, self.settings, seed=self.seed, generation=generation, archive=archive, precheck=self._precheck
        )


def build(
    space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Precheck | None = None
) -> FourPhaseSampler:
    """The entry point: a sampler from its config section; unknown keys and wrong values are InputErrors."""
    known = [f.name for f in fields(FourPhaseSettings)]
    for key in settings:
        if key not in known:
            raise unknown_name("key in sampler.settings", key, known)
    given = dict(settings)
    if "phases" in given:
        given["phases"] = tuple(_phase(section) for section in given["phases"])
    return FourPhaseSampler(space, seed=seed, settings=FourPhaseSettings(**given), precheck=precheck)


def _phase(section: Mapping[str, Any]) -> Phase:
    known = [f.name for f in fields(Phase)]
    for key in section:
        if key not in known:
            raise unknown_name("key in sampler.settings.phases", key, known)
    if missing := [key for key in known if key not in section]:
        raise InputError(f"a phase in sampler.settings.phases lacks {', '.join(missing)}")
    return Phase(**section)
