"""Cost = alpha(node) x area, in mm2 of the 32 nm node.

Source: section IV-I of arXiv 2603.03880 (Cost = alpha x A); values in `data/alpha.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cimopt.errors import InputError
from cimopt.evaluators.base import Evaluator, names
from cimopt.types import Designs, Metrics, Workload
from cimopt_techcost.table import AlphaTable, published_table

NO_AREA = "no cost: an earlier evaluator gave no area"


class TechCost(Evaluator):
    """`cost` in mm2 of 32 nm silicon of equal price: one per design, like `area_mm2`."""

    name, version = "techcost", "1"
    requires, provides = ("area_mm2", "node_nm"), ("cost",)

    def __init__(self, alpha: Mapping[int | str, float] | None = None) -> None:
        """`alpha`: values of your own by node in nm, added to the published ones or replacing them."""
        self._own = _checked(alpha or {})

    def evaluate(self, designs: Designs, workloads: Sequence[Workload], detail: str = "totals") -> Metrics:
        """`cost` has the shape of `area_mm2`: (n,), or (n, w) where areas differ per workload."""
        area = designs["area_mm2"]
        per_design = self.table.alpha(designs["node_nm"])
        cost = (area.T * per_design).T
        failed = ~np.isfinite(cost).reshape(len(designs), -1).all(axis=1)
        cost[failed] = np.nan
        return Metrics({"cost": cost}, names(workloads), reason=failed.astype(np.int16), reasons=("ok", NO_AREA))

    @property
    def table(self) -> AlphaTable:
        return published_table().extended(self._own)

    def cache_key(self) -> dict[str, float]:
        return {f"alpha.{node:g}": alpha for node, alpha in self._own.items()}


def _checked(alpha: Mapping[int | str, float]) -> dict[float, float]:
    """Nodes as numbers (the command line gives text) and positive, finite values."""
    found: dict[float, float] = {}
    for node, value in alpha.items():
        try:
            nm, cost = float(node), float(value)
        except (TypeError, ValueError):
            raise InputError(f"evaluator.techcost.alpha: '{node}: {value}' must be two numbers") from None
        if not (0 < nm < np.inf and 0 < cost < np.inf):
            raise InputError(f"evaluator.techcost.alpha: '{node}: {value}' must be positive and finite")
        found[nm] = cost
    return found
