"""Cost per mm2 by technology node, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from cimopt.errors import InputError

DATA_FILE = Path(__file__).with_name("data") / "alpha.yaml"


@dataclass(frozen=True)
class AlphaTable:
    """`values`: node (nm) -> alpha; `unknown`: node (nm) -> why there is no value."""

    values: Mapping[float, float]
    unknown: Mapping[float, str]

    def extended(self, own: Mapping[float, float]) -> AlphaTable:
        return AlphaTable({**self.values, **own}, self.unknown)

    def alpha(self, node_nm: np.ndarray) -> np.ndarray:
        """Alpha (n,) of nodes (n,) in nm; a node without a value is an `InputError`."""
        nodes, where = np.unique(node_nm, return_inverse=True)
        return np.array([self._one(node.item()) for node in nodes], dtype=float)[where]

    def _one(self, node: object) -> float:
        if node in self.values:
            return self.values[node]
        known = ", ".join(f"{nm:g}" for nm in sorted(self.values))
        why = f" ({self.unknown[node]})" if node in self.unknown else ""
        raise InputError(
            f"no cost per mm2 for node_nm={node}{why}; known nodes: {known} nm; "
            f"add your own with +evaluator.techcost.alpha.{node}=VALUE"
        )


@cache
def published_table() -> AlphaTable:
    """The table of `data/alpha.yaml`."""
    import yaml

    data = yaml.safe_load(DATA_FILE.read_text(encoding="utf-8"))
    return AlphaTable(
        values={float(nm): float(value) for nm, value in data["alpha"].items()},
        unknown={float(nm): str(why) for nm, why in data["unknown"].items()},
    )
