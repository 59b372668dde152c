"""Optuna's own samplers by name, with the budget and batch of a four-phase run.

They are asked through the same loop: `batch` trials are asked, evaluated together and told.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import optuna
from optuna.samplers import BaseSampler

from cimopt.errors import InputError, MissingExtraError, unknown_name
from cimopt.samplers.box import GeneSpace

KEYS = ("budget", "batch")


class BatchAsked(BaseSampler):
    """An Optuna sampler plus how many trials a full run has and how many are asked at once."""

    def __init__(self, inner: BaseSampler, settings: Mapping[str, Any]) -> None:
        for key in settings:
            if key not in KEYS:
                raise unknown_name("key in sampler.settings", key, KEYS)
        self.inner = inner
        self.budget, self.batch = int(settings.get("budget", 2100)), int(settings.get("batch", 40))
        for key in KEYS:
            if getattr(self, key) < 1:
                raise InputError(f"sampler.settings.{key}={getattr(self, key)} must be >= 1")

    def reseed_rng(self) -> None:
        self.inner.reseed_rng()

    def infer_relative_search_space(self, study, trial):
        return self.inner.infer_relative_search_space(study, trial)

    def sample_relative(self, study, trial, search_space):
        return self.inner.sample_relative(study, trial, search_space)

    def sample_independent(self, study, trial, param_name, param_distribution):
        return self.inner.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study, trial):
        self.inner.before_trial(study, trial)

    def after_trial(self, study, trial, state, values):
        self.inner.after_trial(study, trial, state, values)


def build_random(space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Any = None) -> BatchAsked:
    return BatchAsked(optuna.samplers.RandomSampler(seed=seed), settings)


def build_tpe(space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Any = None) -> BatchAsked:
    return BatchAsked(optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True), settings)


def build_nsga2(space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Any = None) -> BatchAsked:
    return BatchAsked(
        optuna.samplers.NSGAIISampler(seed=seed, population_size=int(settings.get("batch", 40))), settings
    )


def build_cmaes(space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Any = None) -> BatchAsked:
    try:
        import cmaes  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("sampler=cmaes", "peers") from error
    return BatchAsked(optuna.samplers.CmaEsSampler(seed=seed), settings)


def build_gp(space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Any = None) -> BatchAsked:
    if find_spec("torch") is None:
        raise InputError("sampler=gp needs torch, which cimopt does not install: pip install torch scipy")
    return BatchAsked(optuna.samplers.GPSampler(seed=seed), settings)
