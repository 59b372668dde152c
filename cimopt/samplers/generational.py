"""Samplers that propose whole generations, as Optuna samplers.

Generation and slot are arithmetic on the trial number (a failed trial uses its slot), proposals are a
pure function of (seed, generation, archive), and no random state is carried: so a resumed study,
any number of workers and the batch path of cimopt's loop all give the same designs. In plain
`study.optimize` with `n_jobs`, a generation is proposed from what has finished by then.
"""

from __future__ import annotations

import functools
import json
import threading
import zlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState

from cimopt.errors import StudyConflictError
from cimopt.samplers.archive import Archive
from cimopt.samplers.box import BoxSpace, GeneSpace
from cimopt.samplers.unseen import Seen, unseen_designs

IDENTITY = "cimopt_sampler"
ARCHIVE_FIELDS = ("number", "genes", "values", "violations")
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
        self._asked: tuple[str, int, int] = ("", -1, 0)
        self._lock = threading.Lock()
        self._checked: set[str] = set()
        self._proposals: dict[tuple[str, int, str], np.ndarray] = {}
        self._history: dict[tuple[str, str], History] = {}

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
        starts = self._starts
        if number >= starts[-1]:
            size = self.size_of(self.n_generations)
            generation, slot = divmod(number - int(starts[-1]), size)
            return self.n_generations + generation, slot
        generation = int(np.searchsorted(starts, number, side="right")) - 1
        return generation, number - int(starts[generation])

    def first_of(self, generation: int) -> int:
        """Number of the first trial of a generation."""
        beyond = max(generation - self.n_generations, 0)
        return int(self._starts[generation - beyond]) + beyond * self.size_of(self.n_generations)

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        """First trial number of generations 0..n_generations."""
        return np.cumsum([0, *(self.size_of(g) for g in range(self.n_generations))])

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the proposals; stored with a plain Optuna study and compared on resume."""
        settings = getattr(self, "settings", None)
        plain = asdict(settings) if is_dataclass(settings) else {}
        return json.loads(json.dumps({"sampler": type(self).__name__, "seed": self.seed, **plain}))

    # -------------------------------------------------------- Optuna's hooks
    def reseed_rng(self) -> None:
        """Nothing to do: no random state is carried between calls."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_proposals", "_history")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._lock, self._proposals, self._history = threading.Lock(), {}, {}

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        self._check_identity(study)
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
        with self._lock:
            key = (study.study_name, space.fingerprint)
            alone = self._alone(study.study_name, generation, trial.number)
            cached = self._proposals.get((key[0], generation, key[1]))
            if cached is not None and slot < len(cached) and alone:
                return cached[slot]
            history = self._history.setdefault(key, History(search_space, study))
            history.update(study.get_trials(deepcopy=False))
            proposals = self._generation(key, generation, space, history)
            taken = history.rows(self.first_of(generation), skip=trial.number)
            if slot < len(proposals) and len(Seen(space, taken.genes).add_new(proposals[slot : slot + 1])):
                return proposals[slot]
            # Another process filled the slot's design meanwhile: any unseen one keeps the trial useful.
            rng = np.random.default_rng([self.seed, 2, trial.number])
            fresh = unseen_designs(space, Seen(space, history.rows(0, skip=trial.number).genes), 1, rng)
        return fresh[0] if len(fresh) else None

    def _alone(self, study: str, generation: int, number: int) -> bool:
        """Whether this process asked every trial of the generation so far: then none can be a duplicate."""
        if self._asked[:2] != (study, generation):
            self._asked = (study, generation, 0)
        self._asked = (study, generation, self._asked[2] + 1)
        return self._asked[2] == number - self.first_of(generation) + 1

    def _generation(self, study: tuple[str, str], generation: int, space: GeneSpace, history: History) -> np.ndarray:
        """The generation's proposals, computed once per process and study."""
        key = (study[0], generation, study[1])
        if key not in self._proposals:
            archive = history.rows(0, stop=self.first_of(generation))
            self._proposals = {key: self.propose(space, generation, archive)}
        return self._proposals[key]

    def _check_identity(self, study: optuna.Study) -> None:
        """Refuse to continue a study that other settings began."""
        if study.study_name in self._checked:
            return
        known = study.user_attrs.get(IDENTITY)
        if known is None:
            study.set_user_attr(IDENTITY, self.identity)
        elif known != self.identity:
            changed = [f"{k}: {known.get(k)} -> {v}" for k, v in self.identity.items() if known.get(k) != v]
            raise StudyConflictError(f"this study was begun with other sampler settings: {'; '.join(changed)}")
        self._checked.add(study.study_name)


class History:
    """A study's trials as arrays. The finished prefix is parsed once, so a trial costs the same late as early."""

    def __init__(self, search_space: Mapping[str, BaseDistribution], study: optuna.Study) -> None:
        self._space = dict(search_space)
        maximise = optuna.study.StudyDirection.MAXIMIZE
        self._sign = np.array([-1.0 if d == maximise else 1.0 for d in study.directions])
        self._prefix = Archive.empty(len(self._space), len(self._sign))
        self._parts: list[Archive] = []
        self._parsed = 0
        self._trials: Sequence[FrozenTrial] = ()

    def update(self, trials: Sequence[FrozenTrial]) -> None:
        """Take in newly finished trials, in order, up to the first unfinished one."""
        self._trials = trials
        stop = self._parsed
        while stop < len(trials) and trials[stop].state in FINISHED:
            stop += 1
        if stop > self._parsed:
            self._parts.append(self._parse(trials[self._parsed : stop]))
            self._parsed = stop

    def rows(self, first: int, stop: int | None = None, skip: int = -1) -> Archive:
        """Trials first..stop-1. Unfinished ones have infinite violation: seen, but never parents."""
        if self._parts:
            merged = [self._prefix, *self._parts]
            self._prefix = Archive(*(np.concatenate([getattr(a, f) for a in merged]) for f in ARCHIVE_FIELDS))
            self._parts = []
        number = self._prefix.number  # trials without these parameters are left out, so places are searched
        low = int(np.searchsorted(number, first))
        high = len(number) if stop is None else int(np.searchsorted(number, stop))
        known = self._prefix.take(np.arange(low, high))
        late = [t for t in self._trials[max(first, self._parsed) : stop] if t.number != skip]
        if not late:
            return known
        fresh = self._parse(late)
        return known.extended(fresh.number, fresh.genes, fresh.values, fresh.violations)

    def _parse(self, trials: Sequence[FrozenTrial]) -> Archive:
        rows = [
            (t.number, _genes(t, self._space), *_score(t, self._sign))
            for t in trials
            if all(name in t.params for name in self._space)
        ]
        if not rows:
            return Archive.empty(len(self._space), len(self._sign))
        number, genes, values, violations = zip(*rows, strict=True)
        return Archive(np.array(number), np.array(genes, dtype=np.int64), np.array(values), np.array(violations))


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


def _genes(trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]) -> list[int]:
    return [min(max(_gene(d, trial.params[name]), 0), choices_of(d) - 1) for name, d in search_space.items()]


def _score(trial: FrozenTrial, sign: np.ndarray) -> tuple[np.ndarray, float]:
    """(values to minimise (k,), total violation) of one trial."""
    if trial.state != TrialState.COMPLETE:
        return np.full(len(sign), np.inf), np.inf
    return sign * np.array(trial.values), float(sum(max(v, 0.0) for v in trial.constraints.values()))
