"""The kit every generational sampler passes."""

from __future__ import annotations

import pickle
from typing import ClassVar

import numpy as np
import optuna
import pytest

from cimopt.samplers.archive import Archive
from cimopt.samplers.generational import GenerationalSampler
from cimopt.space import SearchSpace
from cimopt.types import Parameter, ParameterSet

GENERATIONS = 4  # enough to see selection at work


def box(name: str, *sizes: int) -> SearchSpace:
    parameters = tuple(Parameter(f"x{i}", tuple(range(n))) for i, n in enumerate(sizes))
    return SearchSpace(name, ParameterSet(parameters))


def conditional() -> SearchSpace:
    """A dependent parameter with lists of different length, and one single-choice gene."""
    parent = Parameter("node", (7, 14, 45))
    child = Parameter("volt", depends_on="node", by_parent=((1, 2), (1, 2, 3, 4), (5,)))
    others = tuple(Parameter(f"x{i}", tuple(range(6))) for i in range(5))
    return SearchSpace("conditional", ParameterSet((parent, child, Parameter("one", (0,)), *others)))


def bowl(genes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(values, violations) of a bowl at gene 2 whose first gene must be positive."""
    return ((genes - 2.0) ** 2).sum(axis=1), np.maximum(0.0, 1.0 - genes[:, 0])


class SamplerContract:
    """Subclass and write `make(space, seed)`."""

    spaces: ClassVar[tuple[SearchSpace, ...]] = (box("plain", 8, 6, 5, 5, 6, 5, 6, 7), conditional())

    def make(self, space: SearchSpace | None, seed: int) -> GenerationalSampler:
        raise NotImplementedError

    def run(self, space: SearchSpace, seed: int, generations: int = GENERATIONS) -> Archive:
        """The batch path: propose, evaluate, remember."""
        sampler = self.make(space, seed)
        archive = Archive.empty(space.n_genes)
        for generation in range(generations):
            genes = sampler.propose(space, generation, archive)
            number = sampler.first_of(generation) + np.arange(len(genes))
            archive = archive.extended(number, genes, *bowl(genes))
        return archive

    def test_designs_are_legal_whole_numbers(self) -> None:
        for space in self.spaces:
            genes = self.run(space, 1).genes
            assert genes.dtype.kind == "i"
            assert (genes >= 0).all()
            assert (genes < space.n_choices).all()
            assert space.valid(genes).all()

    def test_no_design_twice(self) -> None:
        for space in self.spaces:
            genes = self.run(space, 1).genes
            assert len(np.unique(genes, axis=0)) == len(genes)

    def test_sizes_follow_the_schedule(self) -> None:
        space = self.spaces[0]
        sampler = self.make(space, 1)
        for generation in range(3):
            assert len(self.run(space, 1, generation + 1)) == sampler.first_of(generation + 1)
        for number in (0, sampler.size_of(0) - 1, sampler.size_of(0), sampler.budget - 1, sampler.budget + 3):
            generation, slot = sampler.slot_of(number)
            assert sampler.first_of(generation) + slot == number
            assert 0 <= slot < sampler.size_of(generation)

    def test_same_seed_same_designs(self) -> None:
        for space in self.spaces:
            assert np.array_equal(self.run(space, 3).genes, self.run(space, 3).genes)

    def test_other_seed_other_designs(self) -> None:
        space = self.spaces[0]
        assert not np.array_equal(self.run(space, 3).genes, self.run(space, 4).genes)

    def test_carries_no_state(self) -> None:
        space = self.spaces[0]
        archive = self.run(space, 5, 2)
        fresh = self.make(space, 5).propose(space, 2, archive)
        used = self.make(space, 5)
        used.propose(space, 0, Archive.empty(space.n_genes))
        assert np.array_equal(fresh, used.propose(space, 2, archive))
        assert np.array_equal(fresh, pickle.loads(pickle.dumps(used)).propose(space, 2, archive))

    def test_failed_designs_are_no_parents_but_are_known(self) -> None:
        space = self.spaces[0]
        sampler = self.make(space, 1)
        genes = sampler.propose(space, 0, Archive.empty(space.n_genes))
        n = len(genes)
        archive = Archive(np.arange(n), genes, np.full(n, np.inf), np.full(n, np.inf))
        more = sampler.propose(space, 1, archive)
        assert len(more) == sampler.size_of(1)
        assert len(np.unique(np.concatenate([genes, more]), axis=0)) == n + len(more)

    def test_a_small_space_is_used_up(self) -> None:
        space = box("tiny", 2, 2, 3)
        archive = self.run(space, 1)
        assert len(archive) == 12
        assert len(self.make(space, 1).propose(space, 2, archive)) == 0

    def test_gets_better(self) -> None:
        space = self.spaces[0]
        archive = self.run(space, 1)
        start = archive.number < self.make(space, 1).size_of(0)
        ok = archive.violations <= 0
        assert archive.values[ok & ~start].min() < archive.values[ok & start].min()

    def test_plain_optuna_gives_the_same_designs(self) -> None:
        space = box("plain", 4, 5, 3, 6)
        sampler = self.make(space, 2)
        n = sampler.first_of(2) if sampler.first_of(2) < space.size else 60
        study = optuna.create_study(sampler=sampler)

        def objective(trial: optuna.Trial) -> float:
            genes = np.array([[trial.suggest_int(f"x{i}", 0, int(k) - 1) for i, k in enumerate(space.n_choices)]])
            value, violation = bowl(genes)
            trial.set_constraint("first", float(violation[0]) or float(1 - genes[0, 0]))
            return float(value[0])

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study.optimize(objective, n_trials=n)
        asked = np.array([[t.params[f"x{i}"] for i in range(4)] for t in study.get_trials(deepcopy=False)])
        assert np.array_equal(asked, self.run(space, 2).genes[:n])
        assert all(type(v) is int for t in study.trials for v in t.params.values())

    @pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
    def test_threads_share_a_study(self) -> None:
        space = self.spaces[0]
        study = optuna.create_study(sampler=self.make(space, 1))
        optuna.logging.set_verbosity(optuna.logging.ERROR)

        def objective(trial: optuna.Trial) -> float:
            return sum((trial.suggest_int(f"x{i}", 0, int(k) - 1) - 2) ** 2 for i, k in enumerate(space.n_choices))

        study.optimize(objective, n_trials=80, n_jobs=4)
        assert len(study.trials) == 80
        assert all(t.state.is_finished() for t in study.trials)
