"""Every installed evaluator passes the kit on every space whose parameters it reads."""

import functools

import pytest
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra

from cimopt import plugins
from cimopt.config.compose import CONF_MODULE, compose, register
from cimopt.errors import InputError
from cimopt.evaluators import Chain
from cimopt.testing import EvaluatorContract, space_named

SPACES = ("rram", "sram", "sram_tech")


NAMES = [p.name for p in plugins.installed("cimopt.evaluators")]


@functools.cache
def choices(group: str) -> frozenset[str]:
    """Config choices of a group, plug-ins' included."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_module(CONF_MODULE, version_base="1.3"):
        return frozenset(GlobalHydra.instance().config_loader().get_group_options(group))


def alone(name: str, space: str) -> object | None:
    """The evaluator with its config defaults, or None when it needs another one or other parameters."""
    if name not in choices("evaluator"):
        return None  # test_every_evaluator_has_a_config_choice names it
    settings = compose([f"evaluator={name}"])["evaluator"][name] or {}
    evaluator = plugins.load("cimopt.evaluators", name).from_config(settings)
    try:
        Chain([evaluator], space_named(space).parameters.all_names)
    except InputError:
        return None
    return evaluator


def pairs() -> list[tuple[str, str]]:
    return [(name, space) for name in NAMES for space in SPACES if alone(name, space) is not None]


@pytest.mark.parametrize("name", NAMES)
def test_every_evaluator_has_a_config_choice(name):
    assert name in choices("evaluator")


def test_there_is_something_to_test():
    assert ("tiled_published", "rram") in pairs()


for _name, _space in pairs():
    _title = f"Test_{_name}_on_{_space}"
    globals()[_title] = type(_title, (EvaluatorContract,), {"evaluator": alone(_name, _space), "space": _space})


@pytest.mark.parametrize("group", plugins.GROUPS)
def test_every_announced_name_can_be_loaded(group):
    if group == "cimopt.confs":
        pytest.skip("config folders are names of packages, not objects")
    for plugin in plugins.installed(group):
        assert plugins.load(group, plugin.name) is not None


@pytest.mark.parametrize(("name", "space"), pairs())
def test_kept_stage_tables_mean_the_same_in_another_process(name, space, tmp_path, monkeypatch):
    """With tables written by one instance, a fresh one gives the same metrics as without any."""
    import numpy as np

    from cimopt.evaluators import stage_cache
    from cimopt.testing.evaluator import assert_same
    from cimopt.workloads import load

    monkeypatch.setattr(stage_cache, "SAVE_ROWS", 1)
    where = space_named(space)
    designs = where.designs(where.sample(40, np.random.default_rng(5)))
    found = []
    for folder in ("unused", "kept", "kept"):
        monkeypatch.setenv("CIMOPT_CACHE", str(tmp_path / folder))
        # The middle instance sees the designs in another order, so that places in its own state differ.
        order = np.arange(40) if len(found) != 1 else np.arange(40)[::-1]
        metrics = alone(name, space).evaluate(designs.take(order), (load("alexnet"),))
        found.append(metrics.take(np.argsort(order)))
    assert_same(found[0], found[1], exact=False)
    assert_same(found[0], found[2], exact=False)
