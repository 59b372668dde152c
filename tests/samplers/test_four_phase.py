"""The four-phase GA: its kit, Optuna's own suite, the schedule, settings, resume."""

import numpy as np
import optuna
import pytest
from optuna.testing.pytest_samplers import BasicSamplerTestCase, MultiObjectiveSamplerTestCase

from cimopt.errors import InputError, StudyConflictError
from cimopt.samplers.archive import Archive
from cimopt.samplers.four_phase import TABLE_IV, FourPhaseSampler, FourPhaseSettings, Phase, build
from cimopt.testing import SamplerContract, space_named

SMALL = FourPhaseSettings(pool=200, start=60, population=20)


def second_gene_over_three(genes):
    return genes[:, 1] - 3.0


class TestFourPhase(SamplerContract):
    def make(self, space, seed):
        return FourPhaseSampler(space, seed=seed, settings=SMALL)


class TestFourPhaseOurs(SamplerContract):
    def make(self, space, seed):
        from cimopt.config.compose import compose

        settings = compose(["sampler=four_phase"])["sampler"]["settings"]
        return build(space, {**settings, "pool": 200, "start": 60, "population": 20}, seed, second_gene_over_three)


class TestFourPhaseOfThePaper(SamplerContract):
    def make(self, space, seed):
        return FourPhaseSampler(space, seed=seed)


class TestOptunasSuite(BasicSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: FourPhaseSampler(settings=FourPhaseSettings(pool=40, start=10, population=6))


def test_table_iv():
    """The 16 values of the paper's Table IV (JOINT_SEARCH section 2)."""
    assert [(p.p_c, p.eta_c, p.p_m, p.eta_m, p.generations) for p in TABLE_IV] == [
        (1.0, 3, 1.0, 3, 10), (0.9, 7, 0.5, 7, 10), (1.0, 15, 0.2, 15, 10), (1.0, 25, 0.05, 25, 10),
    ]  # fmt: skip


def test_budget_and_slots():
    sampler = FourPhaseSampler()
    assert sampler.budget == 500 + 4 * 10 * 40 == 2100
    assert sampler.slot_of(499) == (0, 499)
    assert sampler.slot_of(500) == (1, 0)
    assert sampler.slot_of(2099) == (40, 39)
    assert [FourPhaseSettings().phase_of(g) for g in (1, 10, 11, 40)] == [(0, 1), (0, 1), (1, 11), (3, 31)]


def test_start_pool_holds_only_designs_that_pass_the_precheck():
    space = space_named("rram")
    sampler = FourPhaseSampler(space, seed=1, precheck=lambda genes: genes[:, 3] - 2.0)
    genes = sampler.propose(space, 0, Archive.empty(space.n_genes))
    assert len(genes) == 500
    assert (genes[:, 3] <= 2).all()


def test_offspring_pass_the_precheck_when_asked():
    space = space_named("rram")
    settings = FourPhaseSettings(pool=200, start=60, population=20, precheck_offspring=True)
    sampler = FourPhaseSampler(space, seed=1, settings=settings, precheck=lambda genes: genes[:, 3] - 2.0)
    genes = sampler.propose(space, 0, Archive.empty(space.n_genes))
    archive = Archive(np.arange(60), genes, genes.sum(axis=1) * 1.0, np.zeros(60))
    children = sampler.propose(space, 1, archive)
    assert len(children) == 20
    assert (children[:, 3] <= 2).all()


def test_a_tight_precheck_is_topped_up_with_other_designs():
    space = space_named("rram_small")
    sampler = FourPhaseSampler(space, seed=1, precheck=lambda genes: 100.0 - genes.sum(axis=1))
    genes = sampler.propose(space, 0, Archive.empty(space.n_genes))
    assert len(np.unique(genes, axis=0)) == 500


def test_feasible_designs_lead_whatever_their_value():
    """Feasibility rules: after the first phase a feasible member beats any infeasible one."""
    space = space_named("rram")
    settings = FourPhaseSettings(
        pool=100, start=40, population=10, phases=(Phase(0, 1, 3, 1, 3), Phase(5, 1.0, 15, 0.0, 15))
    )
    rng = np.random.default_rng(0)
    genes = space.sample(40, rng)
    genes[:20, 1] = 7
    genes[20:, 1] = 0
    violations = np.where(np.arange(40) < 20, 0.0, 0.5)
    values = np.where(np.arange(40) < 20, 100.0, 1.0)
    sampler = FourPhaseSampler(space, seed=1, settings=settings)
    children = sampler.propose(space, 1, Archive(np.arange(40), genes, values, violations))
    assert (children[:, 1] == 7).all(), "all parents were feasible, and they share a gene"


def test_resume_equals_a_straight_run():
    """Cases O10, O13: 40 + 80 trials equal 120, and the best is the same."""

    def objective(trial):
        return sum((trial.suggest_int(f"x{i}", 0, 6) - i) ** 2 for i in range(6))

    def sampler():
        from cimopt.samplers.box import BoxSpace

        return FourPhaseSampler(BoxSpace(tuple(f"x{i}" for i in range(6)), (7,) * 6), seed=3, settings=SMALL)

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    straight = optuna.create_study(sampler=sampler())
    straight.optimize(objective, n_trials=120)
    storage = optuna.storages.InMemoryStorage()
    first = optuna.create_study(study_name="s", storage=storage, sampler=sampler())
    first.optimize(objective, n_trials=40)
    second = optuna.load_study(study_name="s", storage=storage, sampler=sampler())
    second.optimize(objective, n_trials=80)
    assert [t.params for t in straight.trials] == [t.params for t in second.trials]


def test_categorical_and_stepped_distributions_in_plain_optuna():
    def objective(trial):
        kind = trial.suggest_categorical("kind", ["a", "abcd"])  # case O3: words are not cut
        volt = trial.suggest_float("volt", 0.5, 0.85, step=0.05)
        rows = trial.suggest_int("rows", 32, 512, step=32)
        assert kind in ("a", "abcd")
        assert type(rows) is int
        assert 0.5 <= volt <= 0.85
        return volt + rows + len(kind)

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=FourPhaseSampler(settings=SMALL))
    study.optimize(objective, n_trials=150)
    assert len({tuple(t.params.values()) for t in study.trials[1:]}) == 149
    assert study.best_value <= 32 + 0.5 + 1 + 32


def test_maximising_is_understood():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=FourPhaseSampler(settings=SMALL))
    study.optimize(lambda t: -sum((t.suggest_int(f"x{i}", 0, 9) - 4) ** 2 for i in range(5)), n_trials=200)
    values = [t.value for t in study.trials]
    assert np.mean(values[160:]) > np.mean(values[:60])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pol": 1}, "unknown key in sampler.settings 'pol'; did you mean 'pool'"),
        ({"start": 2000}, r"sampler.start=2000 exceeds sampler.pool=1000"),
        ({"population": 1}, "sampler.population=1 must be at least 2"),
        ({"phases": [{"generations": 1}]}, "lacks p_c, eta_c, p_m, eta_m"),
        ({"phases": [{"generations": 1, "p_c": 2, "eta_c": 1, "p_m": 0, "eta_m": 1}]}, r"p_c=2 must lie in 0\.\.1"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        build(space_named("rram"), settings, 1)


def test_a_plain_study_refuses_other_settings():
    """The sampler's identity is stored with the study."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(study_name="s", storage=storage, sampler=FourPhaseSampler(settings=SMALL, seed=1))
    study.optimize(lambda t: t.suggest_int("x", 0, 5), n_trials=3)
    same = optuna.load_study(study_name="s", storage=storage, sampler=FourPhaseSampler(settings=SMALL, seed=1))
    same.optimize(lambda t: t.suggest_int("x", 0, 5), n_trials=2)
    other = optuna.load_study(study_name="s", storage=storage, sampler=FourPhaseSampler(settings=SMALL, seed=2))
    with pytest.raises(StudyConflictError, match="seed: 1 -> 2"):
        other.optimize(lambda t: t.suggest_int("x", 0, 5), n_trials=1)


def work(path, n):
    """One of several processes on one journal."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    from cimopt.samplers.box import BoxSpace

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = tuple(f"x{i}" for i in range(6))
    sampler = FourPhaseSampler(BoxSpace(names, (7,) * 6), seed=3, settings=SMALL)
    study = optuna.load_study(study_name="s", storage=JournalStorage(JournalFileBackend(path)), sampler=sampler)
    study.optimize(lambda t: float(sum((t.suggest_int(k, 0, 6) - 3) ** 2 for k in names)), n_trials=n)


def test_processes_share_one_storage(tmp_path):
    """Case O11: four processes, one journal. Nothing is lost; duplicates only within one storage round trip."""
    import multiprocessing

    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    path = str(tmp_path / "study.journal")
    study = optuna.create_study(study_name="s", storage=JournalStorage(JournalFileBackend(path)))
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(path, 40)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    trials = study.get_trials(deepcopy=False)
    assert [p.exitcode for p in processes] == [0] * 4
    assert len(trials) == 160
    assert all(t.state == optuna.trial.TrialState.COMPLETE for t in trials)
    first = {tuple(t.params.values()) for t in trials[:60]}
    assert len(first) == 60, "no two processes propose the same start design"
    assert len({tuple(t.params.values()) for t in trials}) >= 152, "at most one design in twenty is repeated"


def test_a_straggler_is_still_selected():
    """A trial of an earlier generation that finishes late becomes a parent."""
    from cimopt.samplers.box import BoxSpace

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = tuple(f"x{i}" for i in range(6))
    space = BoxSpace(names, (9,) * 6)
    settings = FourPhaseSettings(pool=60, start=20, population=10, phases=(Phase(9, 1.0, 15, 0.0, 15),))
    study = optuna.create_study(sampler=FourPhaseSampler(space, seed=1, settings=settings))
    distributions = {name: optuna.distributions.IntDistribution(0, 8) for name in names}
    late = study.ask(distributions)
    for _ in range(29):
        trial = study.ask(distributions)
        study.tell(trial, 100.0 + sum(trial.params.values()))
    study.tell(late, 0.0)  # by far the best, told when generation 1 is over
    children = []
    for _ in range(10):
        trial = study.ask(distributions)
        study.tell(trial, 100.0)
        children.append(list(trial.params.values()))
    shared = (np.array(children) == np.array(list(late.params.values()))).sum(axis=1)
    assert shared.max() >= 3, "some child carries the straggler's genes"
