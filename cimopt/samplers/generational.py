"""Samplers that propose whole generations, as Optuna samplers.

Generation and slot are arithmetic on the trial number (a failed trial uses its slot), proposals are a
pure function of (seed, generation, archive), and no random state is carried: so a resumed study,
any number of workers and the batch path of cimopt's loop all give the same designs. In plain
`study.optimize` with `n_jobs`, a generation is proposed from what has finished by then.
"""

from __future__ import annotations

import threading
import zlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState

from cimopt.samplers.archive import Archive
from cimopt.samplers.box import BoxSpace, GeneSpace
from cimopt.samplers.unseen import Seen, unseen_designs

FINISHED = (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED)


class GenerationalSampler(BaseSampler):
    """Write `propose`, `size_of` and `n_generations`; Optuna's hooks and cimopt's loop are served.

    With a `space` (cimopt's), every parameter is a gene, `IntDistribution(0, n - 1)`. Without one, the
    space is what the study's finished trials have in common, so the first trial is random;
    categorical and stepped distributions become genes, others are sampled at random.
    """

    multi_objective = False

    def __init__(self, space: GeneSpace | None = None, *, seed: int = 1) -> None:
        self.space = space
        self.seed = seed
        self._common = IntersectionSearchSpace()
        self._lock = threading.Lock()
        self._proposals: dict[tuple[int, int, str], np.ndarray] = {}

    # ------------------------------------------------------- for the author
    @property
    @abstractmethod
    def n_generations(self) -> int:
        """Generations in a full run, the start generation included."""

    @abstractmethod
    def size_of(self, generation: int) -> int:
        """Designs in one generation: a function of the number alone."""

    @abstractmethod
    def propose(self, space: GeneSpace, generation: int, archive: Archive) -> np.ndarray:
        """Genes of one generation, int (<= size, n_genes); must be a pure function. Fewer rows: space used up."""

    # ------------------------------------------------------------ schedule
    @property
    def budget(self) -> int:
        """Designs in a full run."""
        return sum(self.size_of(g) for g in range(self.n_generations))

    def slot_of(self, number: int) -> tuple[int, int]:
        """(generation, slot) of a trial number; numbers past the schedule go on with the last size."""
        generation = 0
        while number >= self.size_of(generation):
            number -= self.size_of(generation)
            generation += 1
            if generation >= self.n_generations:
                size = self.size_of(generation)
                return generation + number // size, number % size
        return generation, number

    def first_of(self, generation: int) -> int:
        """Number of the first trial of a generation."""
        return sum(self.size_of(g) for g in range(generation))

    # -------------------------------------------------------- Optuna's hooks
    def reseed_rng(self) -> None:
        """Nothing to do: no random state is carried between calls."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_proposals")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._lock, self._proposals = threading.Lock(), {}

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        if self.space is not None:
            sizes = zip(self.space.names, self.space.n_choices, strict=True)
            return {name: IntDistribution(0, int(n) - 1) for name, n in sizes}
        with self._lock:
            common = self._common.calculate(study)
        return {k: d for k, d in sorted(common.items()) if choices_of(d) is not None and not d.single()}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        self._check_goals(study)
        if not search_space:
            return {}
        space = self.space or BoxSpace(tuple(search_space), tuple(choices_of(d) for d in search_space.values()))
        row = self._row(study, trial, space, search_space)
        if row is None:
            return {}
        return {name: _value(d, int(gene)) for (name, d), gene in zip(search_space.items(), row, strict=True)}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        self._check_goals(study)
        seed = np.random.SeedSequence([self.seed, 3, trial.number, zlib.crc32(param_name.encode())]).generate_state(1)[
            0
        ]
        return RandomSampler(seed=int(seed)).sample_independent(study, trial, param_name, param_distribution)

    # ---------------------------------------------------------------- inside
    def _check_goals(self, study: optuna.Study) -> None:
        n = len(study.directions)
        if n != 1 and not self.multi_objective:
            raise ValueError(f"{type(self).__name__} minimises or maximises one value; this study has {n}")

    def _row(
        self, study: optuna.Study, trial: FrozenTrial, space: GeneSpace, search_space: Mapping[str, BaseDistribution]
    ) -> np.ndarray | None:
        """This trial's genes; None when the space is used up."""
        generation, slot = self.slot_of(trial.number)
        trials = study.get_trials(deepcopy=False)
        proposals = self._generation(study, generation, space, search_space, trials)
        taken = archive_of(trials, search_space, study, first=self.first_of(generation), skip=trial.number)
        seen = Seen(space, taken.genes)
        if slot < len(proposals) and len(seen.add_new(proposals[slot : slot + 1])):
            return proposals[slot]
        # Another process filled the slot's design meanwhile: any unseen one keeps the trial useful.
        everything = archive_of(trials, search_space, study, skip=trial.number)
        rng = np.random.default_rng([self.seed, 2, trial.number])
        fresh = unseen_designs(space, Seen(space, everything.genes), 1, rng)
        return fresh[0] if len(fresh) else None

    def _generation(
        self, study: optuna.Study, generation: int, space: GeneSpace, search_space: Mapping[str, BaseDistribution],
        trials: Sequence[FrozenTrial],
    ) -> np.ndarray:  # fmt: skip
        """The generation's proposals, computed once per process and study."""
        key = (study._study_id, generation, space.fingerprint)
        with self._lock:
            if key not in self._proposals:
                archive = archive_of(trials, search_space, study, stop=self.first_of(generation))
                self._proposals = {key: self.propose(space, generation, archive)}
            return self._proposals[key]


def choices_of(distribution: BaseDistribution) -> int | None:
    """Number of values of a discrete distribution; None for a continuous or logarithmic one."""
    if isinstance(distribution, CategoricalDistribution):
        return len(distribution.choices)
    if isinstance(distribution, IntDistribution | FloatDistribution) and not distribution.log and distribution.step:
        return round((distribution.high - distribution.low) / distribution.step) + 1
    return None


def _value(distribution: BaseDistribution, gene: int) -> Any:
    """The value of a gene as a plain Python object."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[gene]
    value = distribution.low + gene * distribution.step
    return int(value) if isinstance(distribution, IntDistribution) else min(float(value), distribution.high)


def _gene(distribution: BaseDistribution, value: Any) -> int:
    internal = distribution.to_internal_repr(value)
    if isinstance(distribution, CategoricalDistribution):
        return int(internal)
    return round((internal - distribution.low) / distribution.step)


def archive_of(
    trials: Sequence[FrozenTrial], search_space: Mapping[str, BaseDistribution], study: optuna.Study,
    first: int = 0, stop: int | None = None, skip: int = -1,
) -> Archive:  # fmt: skip
    """Trials first..stop-1 as arrays. Unfinished ones have infinite violation: seen, but never parents."""
    maximise = optuna.study.StudyDirection.MAXIMIZE
    sign = np.array([-1.0 if d == maximise else 1.0 for d in study.directions])
    rows = [
        (t.number, _genes(t, search_space), *_score(t, sign))
        for t in trials[first:stop]
        if t.number != skip and all(name in t.params for name in search_space)
    ]
    if not rows:
        return Archive.empty(len(search_space), len(sign))
    number, genes, values, violations = zip(*rows, strict=True)
    return Archive(np.array(number), np.array(genes, dtype=np.int64), np.array(values), np.array(violations))


def _genes(trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]) -> list[int]:
    return [min(max(_gene(d, trial.params[name]), 0), choices_of(d) - 1) for name, d in search_space.items()]


def _score(trial: FrozenTrial, sign: np.ndarray) -> tuple[np.ndarray, float]:
    """(values to minimise (k,), total violation) of one trial."""
    if trial.state != TrialState.COMPLETE:
        return np.full(len(sign), np.inf), np.inf
    return sign * np.array(trial.values), float(sum(max(v, 0.0) for v in trial.constraints.values()))
