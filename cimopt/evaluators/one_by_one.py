"""For slow models: write one design at a time; batching, errors and workers are taken care of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from cimopt.errors import CimoptError, ContractError
from cimopt.evaluators.base import Evaluator, Workloads, names
from cimopt.evaluators.wrappers import reason_of
from cimopt.types import Designs, Metrics, Value, Workload


class Infeasible(Exception):
    """Raise it from `evaluate_one` for a design that cannot run: a reason and relative amounts (> 0)."""

    def __init__(self, reason: str, **amounts: float) -> None:
        super().__init__(reason)
        self.amounts = amounts


class OneByOneEvaluator(Evaluator):
    """Subclass and write `evaluate_one(design, workload) -> {metric: number}`.

    `per_design` names the metrics that do not depend on the workload (area, cost). An exception
    becomes the design's error outcome; `Infeasible` its amounts. Called in a Ray worker or in
    the driver, any number of times; results are cached by design, workload and version.
    """

    per_design: ClassVar[tuple[str, ...]] = ("area_mm2", "cost")

    @abstractmethod
    def evaluate_one(self, design: Mapping[str, Value], workload: Workload) -> Mapping[str, float]:
        """Metrics of one design on one workload; `design` maps every name in `requires` to its value."""

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        columns = {name: designs[name] for name in self.requires}
        rows = [self._row({k: v[i] for k, v in columns.items()}, workloads) for i in range(len(designs))]
        return Metrics.concat(rows)

    def _row(self, design: Mapping[str, np.ndarray], workloads: Workloads) -> Metrics:
        plain = {k: v.item() if np.ndim(v) == 0 else v.tolist() for k, v in design.items()}
        try:
            results = [self.evaluate_one(plain, workload) for workload in workloads]
        except Infeasible as bad:
            amounts = {k: np.array([float(v)]) for k, v in bad.amounts.items()}
            if not any(a[0] > 0 for a in amounts.values()):
                raise ContractError(f"evaluator '{self.name}': Infeasible('{bad}') needs a positive amount") from bad
            failed = Metrics.failed([str(bad)], names(workloads))
            return Metrics({}, failed.workloads, failed.reason, failed.reasons, amounts)
        except CimoptError:
            raise
        except Exception as error:  # a slow model's failure is this design's outcome, nobody else's
            return Metrics.failed([reason_of(error)], names(workloads))
        return self._pack(results, workloads)

    def _pack(self, results: list[Mapping[str, float]], workloads: Workloads) -> Metrics:
        values: dict[str, np.ndarray] = {}
        for metric in self.provides:
            if any(metric not in result for result in results):
                raise ContractError(f"evaluator '{self.name}' promises '{metric}' and did not give it")
            column = np.array([float(result[metric]) for result in results])
            if not np.isfinite(column).all():
                return Metrics.failed([f"{metric} is not finite"], names(workloads))
            values[metric] = column[:1] if metric in self.per_design else column[None, :]
        return Metrics(values, names(workloads))
