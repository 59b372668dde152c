"""Builds every room from a checked config, and the recipe a worker needs to build its evaluator."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cimopt import plugins
from cimopt import space as spaces
from cimopt.config.schema import Config
from cimopt.errors import InputError
from cimopt.evaluators import Cached, Chain, Evaluator, Guarded, OneByOneEvaluator, PerNetwork, Spread
from cimopt.evaluators.wrappers import Ruled, Wrapper
from cimopt.runners.auto import AutoRunner
from cimopt.runners.base import Function, Runner
from cimopt.runners.ray import RayRunner
from cimopt.runners.ray_setup import Resources
from cimopt.runners.serial import SerialRunner
from cimopt.scores import objectives
from cimopt.scores.objectives import Objective
from cimopt.space import SearchSpace
from cimopt.types import Designs, Metrics, ParameterSet, Workload, fingerprint
from cimopt.workloads import networks_of
from cimopt.workloads.searched import Networks


@dataclass(frozen=True)
class EvaluatorRecipe:
    """Plain data from which any process builds the same evaluator: names, settings, parameters, workloads."""

    entries: tuple[tuple[str, Mapping[str, Any]], ...]
    parameters: ParameterSet
    networks: Networks

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """What to call the chain with; searched networks are replaced there, design by design."""
        return self.networks.first

    def chain(self) -> Chain | PerNetwork:
        """The evaluators in working order; InputError when a need is not met."""
        return self._chain([_build(name, settings) for name, settings in self.entries])

    def cheap_chain(self) -> Chain | PerNetwork | None:
        """The cheap evaluators alone, for limits that are checked before the others run."""
        built = [e for e in (_build(name, settings) for name, settings in self.entries) if e.cheap]
        return self._chain(built) if built else None

    def _chain(self, built: list[Evaluator]) -> Chain | PerNetwork:
        chain = Chain(built, self.parameters.all_names)
        searched = [p.name for p in self.networks.parameters]
        if not searched:
            return chain
        return PerNetwork(chain, searched, self.networks.at, self.networks.identity)

    def __call__(self) -> Function:
        """What a runner's worker runs: (genes, detail) -> (Metrics, seconds)."""
        evaluator = Guarded(self.chain())

        def evaluate(item: tuple[np.ndarray, str]) -> tuple[Metrics, float]:
            genes, detail = item
            began = time.perf_counter()
            metrics = evaluator.evaluate(Designs(self.parameters, genes), self.workloads, detail)
            return metrics, time.perf_counter() - began

        return evaluate


def _build(name: str, settings: Mapping[str, Any]) -> Evaluator:
    kind = plugins.load("cimopt.evaluators", name)
    if not (isinstance(kind, type) and issubclass(kind, Evaluator)):
        raise InputError(f"plug-in evaluator '{name}' is no subclass of cimopt.evaluators.Evaluator")
    return kind.from_config(settings)


@dataclass(frozen=True)
class Rooms:
    """One study's parts. `chain` lives in the driver (precheck, breakdowns); workers build their own."""

    config: Config
    space: SearchSpace
    networks: Networks
    recipe: EvaluatorRecipe
    chain: Chain | PerNetwork
    cheap: Chain | PerNetwork | None
    objective: Objective

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The workloads; searched ones at their first combination (names and order are what counts)."""
        return self.networks.first

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the result; a workload counts by its content, not by its file's name."""
        plain = dict(self.config.identity)
        plain["workload"] = self.networks.identity
        plain["space"] = {"name": self.space.name, "fingerprint": self.space.fingerprint, **_choices(self.space)}
        plain["evaluator_versions"] = {e.name: e.version for e in self.chain.evaluators}
        return plain

    @property
    def identity_hash(self) -> str:
        return fingerprint(self.identity)

    def precheck(self, genes: np.ndarray) -> np.ndarray:
        """Violation amounts known before evaluating, (n,): what a sampler's start pool is filtered by.

        Limits on metrics of cheap evaluators; for designs that keep those, what evaluators' `precheck` gives.
        """
        designs, total = self.space.designs(genes), self._cheap_amounts(genes)
        rows = np.flatnonzero(total <= 0)
        if rows.size:
            kept = designs if rows.size == len(designs) else designs.take(rows)
            for amount in self.chain.precheck(kept, self.workloads).values():
                total[rows] += np.maximum(amount, 0.0)
        return total

    def _cheap_amounts(self, genes: np.ndarray) -> np.ndarray:
        total = np.zeros(len(genes))
        bounds = [b for b in self.objective.bounds if self.cheap is not None and b.metric in self.cheap.provides]
        if bounds:
            values = self.cheap.evaluate(self.space.designs(genes), self.workloads).values
            for bound in bounds:
                total += np.maximum(bound.amount(values[bound.metric]), 0.0)
        return total


def _choices(space: SearchSpace) -> dict[str, Any]:
    """Choices per parameter, for a readable difference on resume."""
    listed = {p.name: [list(c) for c in p.by_parent] or list(p.choices) for p in space.parameters.parameters}
    return {"parameters": listed, "fixed": dict(space.parameters.fixed)}


def assemble(config: Config) -> Rooms:
    """Every room of one study; every wrong name or value is one InputError before anything runs."""
    networks = networks_of(config.workload)
    space = spaces.from_config(config.space, networks.parameters, networks.rules)
    recipe = EvaluatorRecipe(_entries(config.evaluator), space.parameters, networks)
    chain = recipe.chain()
    objective = objectives.from_config(config.objective)
    objectives.check_available(objective, chain.provides)
    return Rooms(config, space, networks, recipe, chain, recipe.cheap_chain(), objective)


def _entries(section: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return tuple((name, dict(settings or {})) for name, settings in section.items())


def make_runner(config: Config, size: Callable[[Any], int] = lambda item: len(item[0])) -> Runner:
    """The runner that the config names; `size(item)` is the number of designs in one item."""
    runner = config.runner

    def ray() -> RayRunner:
        return RayRunner(
            runner.workers, address=runner.address, max_retries=runner.max_retries, timeout_s=runner.timeout_s,
            reissue_factor=runner.reissue_factor, size=size,
            resources=Resources(runner.num_cpus, runner.num_gpus, runner.memory),
        )  # fmt: skip

    if runner.name == "ray" or (runner.name == "auto" and runner.address):
        return ray()
    if runner.name == "serial" or not _ray_installed():
        return SerialRunner()
    return AutoRunner(ray, size)


def _ray_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("ray") is not None


def is_slow(chain: Chain | PerNetwork) -> bool:
    """Whether a design is expensive enough to be kept on disk and told one by one."""
    return any(isinstance(e, OneByOneEvaluator) for e in chain.evaluators)


def make_evaluator(rooms: Rooms, runner: Runner, cache_folder: Path | None) -> Wrapper:
    """The evaluator the loop calls: spread over the runner, cached when slow. Starts the runner."""
    runner.start(rooms.recipe)
    # A slow model's results are told (and so kept) chunk by chunk, also when nothing runs in parallel.
    chunk = rooms.config.runner.chunk or (None if _parallel(runner) or is_slow(rooms.chain) else _WHOLE)
    spread = Spread(rooms.chain, runner, chunk, probe=is_slow(rooms.chain))
    wanted = rooms.config.runner.cache
    kept = wanted == "on" or (wanted == "auto" and is_slow(rooms.chain))
    return ruled(rooms.space, Cached(spread, cache_folder) if kept else spread)


def ruled(space: SearchSpace, evaluator: Wrapper) -> Wrapper:
    """The evaluator, asked for legal designs only where a space can refuse any."""
    refuses = space.rules or space.size != space.grid_size
    return Ruled(evaluator, space.valid) if refuses else evaluator


_WHOLE = 1 << 16  # a serial runner takes a whole generation in one go


def _parallel(runner: Runner) -> bool:
    return not isinstance(runner, SerialRunner)
