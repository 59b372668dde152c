"""nevergrad's optimisers as peers (extra: nevergrad), by their registry name, such as DE, PSO or NGOpt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cimopt.errors import InputError, MissingExtraError, unknown_name
from cimopt.samplers.box import GeneSpace
from cimopt.samplers.peers.asktell import AskTell, finite

KEYS = ("algorithm", "budget", "batch")


class NevergradSampler(AskTell):
    """`batch` candidates are asked, evaluated together and told; the violation is nevergrad's constraint."""

    def __init__(self, space: GeneSpace, algorithm: str, *, budget: int, batch: int, seed: int) -> None:
        super().__init__(space, budget, seed)
        import nevergrad as ng

        if algorithm not in ng.optimizers.registry:
            raise unknown_name("sampler.settings.algorithm", algorithm, ng.optimizers.registry)
        scalars = [ng.p.Scalar(lower=0, upper=max(int(n) - 1, 1)).set_integer_casting() for n in space.n_choices]
        instrumentation = ng.p.Tuple(*scalars)
        instrumentation.random_state.seed(seed)
        self._optimiser = ng.optimizers.registry[algorithm](instrumentation, budget=budget, num_workers=batch)
        self._batch = batch
        self._pending: list[Any] = []

    def ask(self) -> np.ndarray:
        self._pending = [self._optimiser.ask() for _ in range(self._batch)]
        return self.legal(np.array([candidate.value for candidate in self._pending], dtype=float))

    def tell(self, genes: np.ndarray, values: np.ndarray, violations: np.ndarray) -> None:
        value, violation = finite(values, violations)
        for candidate, one, missed in zip(self._pending, value, violation, strict=False):
            self._optimiser.tell(candidate, float(one), [float(missed)])


def build(space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Any = None) -> NevergradSampler:
    """The entry point `nevergrad`."""
    try:
        import nevergrad  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("sampler=nevergrad", "nevergrad") from error
    for key in settings:
        if key not in KEYS:
            raise unknown_name("key in sampler.settings", key, KEYS)
    budget, batch = settings.get("budget", 2100), settings.get("batch", 40)
    for key, value in (("budget", budget), ("batch", batch)):
        if type(value) is not int or value < 1:
            raise InputError(f"sampler.settings.{key}={value!r} must be a whole number >= 1")
    return NevergradSampler(space, str(settings.get("algorithm", "NGOpt")), budget=budget, batch=batch, seed=seed)
