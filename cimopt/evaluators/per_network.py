"""Designs whose networks differ: the space's network parameters decide which layers are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cimopt.evaluators.base import Evaluator, Workloads
from cimopt.evaluators.chain import Chain
from cimopt.types import Designs, Metrics, Value, Workload

Build = Callable[[Mapping[str, Value]], tuple[Workload, ...]]


class PerNetwork(Evaluator):
    """A chain that evaluates each design on its own networks.

    `parameters` are the names that decide them, `build(values)` makes them. The `workloads` of a call only
    give the names: designs with equal parameters are evaluated together on what was built for them. Evaluators
    meet ordinary workloads (`workload.params` holds a family's values) and may also require the parameters.
    """

    name, version, passes_on = "chain", "1", True

    def __init__(self, chain: Chain, parameters: Sequence[str], build: Build, identity: object = None) -> None:
        self._chain, self._parameters, self._build, self._identity = chain, tuple(parameters), build, identity
        self.evaluators = chain.evaluators
        self.requires = (*chain.requires, *(p for p in self._parameters if p not in chain.requires))
        self.provides = chain.provides
        for evaluator in chain.evaluators:
            evaluator.keep_stages = False  # a file per network would fill the disk

    def cache_key(self) -> dict:
        return {**self._chain.cache_key(), "networks": self._identity}

    def precheck(self, designs: Designs, workloads: Workloads) -> dict[str, np.ndarray]:
        parts = [(rows, self._chain.precheck(designs.take(rows), nets)) for rows, nets in self._groups(designs)]
        amounts = {name: np.zeros(len(designs)) for _, part in parts for name in part}
        for rows, part in parts:
            for name, amount in part.items():
                amounts[name][rows] = amount
        return amounts

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        groups = self._groups(designs)
        if len(groups) <= 1:
            return self._chain.evaluate(designs, groups[0][1] if groups else workloads, detail)
        # Networks differ in their layers, so a table of layers exists only where all designs share one.
        detail = "components" if detail == "layers" else detail
        parts = [self._chain.evaluate(designs.take(rows), nets, detail) for rows, nets in groups]
        order = np.argsort(np.concatenate([rows for rows, _ in groups]), kind="stable")
        return Metrics.concat(parts).take(order)

    def _groups(self, designs: Designs) -> list[tuple[np.ndarray, tuple[Workload, ...]]]:
        """(rows, networks) of every distinct combination, in order of first appearance."""
        rows: dict[tuple[Value, ...], list[int]] = {}
        for i, key in enumerate(zip(*(designs[name].tolist() for name in self._parameters), strict=True)):
            rows.setdefault(key, []).append(i)
        return [
            (np.array(found), self._build(dict(zip(self._parameters, key, strict=True)))) for key, found in rows.items()
        ]
