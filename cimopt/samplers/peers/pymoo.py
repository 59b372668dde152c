"""pymoo's algorithms as peers (the paper's Table III): GA, PSO, ES, SRES ("ERES"), ISRES, CMA-ES, G3PCX.

Genes are reals in their box, rounded; the one constraint is the total violation. Everything else is pymoo's
default, with the population of the four-phase GA.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cimopt.errors import InputError, MissingExtraError, unknown_name
from cimopt.samplers.box import GeneSpace
from cimopt.samplers.peers.asktell import AskTell, finite

KEYS = ("budget", "population")


class PymooSampler(AskTell):
    """One pymoo algorithm through its ask-and-tell interface."""

    def __init__(
        self, space: GeneSpace, make: Callable[[int], Any], *, budget: int, population: int, seed: int
    ) -> None:
        super().__init__(space, budget, seed)
        self._algorithm = make(population)
        self._pending: Any = None
        upper = np.maximum(space.n_choices - 1.0, 1e-9)  # CMA-ES divides by the width of the box
        from pymoo.core.problem import Problem
        from pymoo.core.termination import NoTermination

        problem = Problem(n_var=space.n_genes, n_obj=1, n_ieq_constr=1, xl=np.zeros(space.n_genes), xu=upper)
        self._problem = problem
        self._algorithm.setup(problem, termination=NoTermination(), seed=seed, verbose=False)
        if getattr(self._algorithm, "survival", None) is not None:
            self._algorithm.survival.do = _with_generator(self._algorithm.survival.do, self._algorithm.random_state)

    def ask(self) -> np.ndarray:
        if not self._algorithm.has_next():
            return np.zeros((0, self.space.n_genes), dtype=np.int64)
        self._pending = self._algorithm.ask()
        if self._pending is None or len(self._pending) == 0:
            return np.zeros((0, self.space.n_genes), dtype=np.int64)
        return self.legal(np.atleast_2d(self._pending.get("X").astype(float)))

    def tell(self, genes: np.ndarray, values: np.ndarray, violations: np.ndarray) -> None:
        value, violation = finite(values, violations)
        from pymoo.core.evaluator import Evaluator
        from pymoo.problems.static import StaticProblem

        static = StaticProblem(self._problem, F=value[:, None], G=violation[:, None])
        Evaluator().eval(static, self._pending)
        with _seeded_ranking():
            self._algorithm.tell(infills=self._pending)


def _with_generator(do: Callable[..., Any], generator: np.random.Generator) -> Callable[..., Any]:
    """ES calls its survival without a generator, which then draws from a fresh unseeded one."""

    def seeded(*arguments: Any, **named: Any) -> Any:
        if named.get("random_state") is None:
            named["random_state"] = generator
        return do(*arguments, **named)

    return seeded


@contextlib.contextmanager
def _seeded_ranking() -> Iterator[None]:
    """pymoo's compiled stochastic ranking (SRES, ISRES) draws from C's unseeded rand(); its Python form is seeded."""
    from pymoo.functions import FunctionLoader

    loader = FunctionLoader.get_instance()
    compiled, loader.is_compiled = loader.is_compiled, False
    try:
        yield
    finally:
        loader.is_compiled = compiled


def _ga(n: int) -> Any:
    from pymoo.algorithms.soo.nonconvex.ga import GA

    return GA(pop_size=n)


def _pso(n: int) -> Any:
    from pymoo.algorithms.soo.nonconvex.pso import PSO

    return PSO(pop_size=n)


def _es(n: int) -> Any:
    from pymoo.algorithms.soo.nonconvex.es import ES

    return ES(n_offsprings=n)


def _sres(n: int) -> Any:
    from pymoo.algorithms.soo.nonconvex.sres import SRES

    return SRES(n_offsprings=n)


def _isres(n: int) -> Any:
    from pymoo.algorithms.soo.nonconvex.isres import ISRES

    return ISRES(n_offsprings=n)


def _cmaes(n: int) -> Any:
    from pymoo.algorithms.soo.nonconvex.cmaes import CMAES

    return CMAES(popsize=n, restarts=9, parallelize=True)


def _g3pcx(n: int) -> Any:
    from pymoo.algorithms.soo.nonconvex.g3pcx import G3PCX

    return G3PCX(pop_size=n)


ALGORITHMS = {"ga": _ga, "pso": _pso, "es": _es, "sres": _sres, "isres": _isres, "cmaes": _cmaes, "g3pcx": _g3pcx}


def build(space: GeneSpace, settings: Mapping[str, Any], seed: int, precheck: Any = None) -> PymooSampler:
    """The entry point `pymoo`: settings name the algorithm, the budget and the population."""
    try:
        import pymoo  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("sampler=pymoo_...", "peers") from error
    for key in settings:
        if key not in (*KEYS, "algorithm"):
            raise unknown_name("key in sampler.settings", key, (*KEYS, "algorithm"))
    name = settings.get("algorithm")
    if name not in ALGORITHMS:
        raise unknown_name("sampler.settings.algorithm", name, ALGORITHMS)
    numbers = {key: settings.get(key, default) for key, default in zip(KEYS, (2100, 40), strict=True)}
    for key, value in numbers.items():
        if type(value) is not int or value < 2:
            raise InputError(f"sampler.settings.{key}={value!r} must be a whole number >= 2")
    return PymooSampler(space, ALGORITHMS[name], seed=seed, **numbers)
