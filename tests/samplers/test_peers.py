"""Peers through the same loop: legal designs, exact budget, replay on resume, clear words when something is missing."""

import dataclasses

import numpy as np
import pytest

from cimopt.config.assemble import assemble
from cimopt.config.compose import compose
from cimopt.config.schema import parse
from cimopt.engine.loop import Silent, make_sampler, search_in_memory
from cimopt.errors import InputError, MissingExtraError
from cimopt.samplers.peers.asktell import AskTell, finite
from cimopt.samplers.peers.pymoo import ALGORITHMS
from cimopt.samplers.plain_ga import PlainGASampler, PlainGASettings
from cimopt.scores.pareto import hypervolume, non_dominated
from cimopt.testing import SamplerContract


def rooms(*overrides):
    return assemble(parse(compose(["workload=alexnet", "tracking=none", "runner=serial", *overrides])))


class TestPlainGA(SamplerContract):
    def make(self, space, seed):
        return PlainGASampler(space, seed=seed, settings=PlainGASettings(start=40, population=20, pool=40, budget=400))

    def test_no_design_twice(self):
        """Not promised: as in the original, a design that died out may return; within a generation none repeats."""
        space = self.spaces[0]
        archive = self.run(space, 1)
        sampler = self.make(space, 1)
        for generation in range(4):
            first, stop = sampler.first_of(generation), sampler.first_of(generation + 1)
            now = archive.genes[(archive.number >= first) & (archive.number < stop)]
            assert len(np.unique(now, axis=0)) == len(now)

    def test_a_small_space_is_used_up(self):
        """Designs may return, so a small space does not end the run; it never goes outside it."""
        from cimopt.testing.sampler import box

        archive = self.run(box("tiny", 2, 2, 3), 1)
        assert len(np.unique(archive.genes, axis=0)) == 12


def test_plain_ga_uses_exactly_its_budget():
    sampler = PlainGASampler(settings=PlainGASettings(start=500, population=40, pool=1000, budget=2110, hamming=True))
    assert sampler.budget == 2110
    assert sampler.size_of(sampler.n_generations - 1) == 10


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_pymoo_algorithms(name):
    pytest.importorskip("pymoo")
    settings = ["sampler.settings.budget=150", "sampler.settings.population=20"]
    found = search_in_memory(rooms("space=rram", f"sampler=pymoo_{name}", *settings))
    everything = found.ledger.merged()
    assert len(everything.number) == 150
    assert np.array_equal(everything.number, np.arange(150))
    again = search_in_memory(rooms("space=rram", f"sampler=pymoo_{name}", *settings)).ledger.merged()
    assert np.array_equal(everything.genes, again.genes), "same seed, same designs"


def test_replay_continues_where_a_killed_run_was(tmp_path):
    """Case O10 for a stateful algorithm: 3 steps, then all, equals all at once."""
    pytest.importorskip("pymoo")
    from cimopt.engine.loop import search

    overrides = ["space=rram", "sampler=pymoo_ga", "sampler.settings.budget=200", "sampler.settings.population=20"]
    straight = search(rooms(*overrides), tmp_path / "a", tmp_path, Silent(), lambda stored: None)
    search(rooms(*overrides, "sampler.stop_after=2"), tmp_path / "b", tmp_path, Silent(), lambda stored: None)
    resumed = search(rooms(*overrides), tmp_path / "b", tmp_path, Silent(), lambda stored: None)
    assert np.array_equal(straight.ledger.merged().genes, resumed.ledger.merged().genes)
    assert np.array_equal(straight.ledger.merged().scores.values, resumed.ledger.merged().scores.values)


def test_early_stopping_saves_designs_and_changes_nothing_before():
    full = search_in_memory(rooms("space=rram_small")).ledger.merged()
    run = search_in_memory(rooms("space=rram_small", "sampler.early_stop=3"))
    short = run.ledger.merged()
    assert len(short.number) < len(full.number)
    assert np.array_equal(short.genes, full.genes[: len(short.genes)])
    assert run.history[-1].best == run.history[-4].best


def test_several_goals_find_the_enumerated_front():
    """rram_small is small enough to be used up, so its front is the exact one."""
    found = search_in_memory(rooms("space=rram_small", "objective=energy_latency_area"))
    everything = found.ledger.merged()
    assert everything.scores.values.shape == (1200, 3)
    volumes = [s.hypervolume for s in found.history if s.hypervolume is not None]
    assert volumes == sorted(volumes), "the hypervolume never shrinks"
    assert 0 < volumes[-1] < 1


def test_pareto_search_comes_near_the_front_of_a_large_space():
    """2,100 of 2,488,320 designs; the front of everything is enumerated in the bench, here a law: better than random."""
    overrides = ["space=sram", "objective=energy_latency_area"]
    ours = search_in_memory(rooms(*overrides, "sampler.stop_after=10")).ledger.merged().scores
    config = parse(
        compose(
            [
                "workload=alexnet",
                "space=sram",
                "objective=energy_latency_area",
                "sampler=random",
                "sampler.settings.budget=900",
            ]
        )
    )
    random = search_in_memory(dataclasses.replace(rooms(*overrides), config=config)).ledger.merged().scores
    assert len(ours) == len(random) == 900
    fronts = [np.log(s.values[s.feasible]) for s in (ours, random)]
    worst = np.max([f.max(axis=0) for f in fronts], axis=0)
    volumes = [hypervolume(f[non_dominated(f)], worst) for f in fronts]
    assert volumes[0] > volumes[1]


def test_missing_libraries_are_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pymoo", None)
    with pytest.raises(MissingExtraError, match=r"cimopt\[peers\]"):
        make_sampler(rooms("sampler=pymoo_ga"))
    monkeypatch.setitem(sys.modules, "nevergrad", None)
    with pytest.raises(MissingExtraError, match=r"cimopt\[nevergrad\]"):
        make_sampler(rooms("sampler=nevergrad"))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("sampler.settings.algorithm=gaa", "did you mean 'ga'"),
        ("sampler.settings.population=1", "sampler.settings.population=1 must be a whole number >= 2"),
    ],
)
def test_wrong_peer_settings(override, words):
    pytest.importorskip("pymoo")
    with pytest.raises(InputError, match=words):
        make_sampler(rooms("sampler=pymoo_ga", override))


def test_no_infinity_reaches_other_libraries():
    values, violations = finite(np.array([1.0, np.inf, 3.0]), np.array([0.0, 0.5, np.inf]))
    assert np.isfinite(values).all()
    assert np.isfinite(violations).all()
    assert values[1] > 3.0
    assert violations[2] > 0.5


def test_ask_tell_designs_are_repaired():
    from cimopt.space import SearchSpace
    from cimopt.types import Parameter, ParameterSet

    space = SearchSpace(
        "d", ParameterSet((Parameter("p", (1, 2)), Parameter("c", depends_on="p", by_parent=((1,), (1, 2, 3)))))
    )

    class Fixed(AskTell):
        def ask(self):
            return self.legal(np.array([[0.2, 2.4], [9.0, -3.0]]))

        def tell(self, genes, values, violations):
            raise AssertionError

    assert Fixed(space, 10, 1).ask().tolist() == [[0, 0], [1, 0]]
