"""The shortest time a network can take on an in-memory-computing chip: every cell busy in every cycle.

A product takes slices = ceil(weight_bits / bits_per_cell) cells for one cycle, so the shortest thinkable time is
sum over layers of products x slices x t_cycle / cells. It is a bound: no mapping, no bandwidth, no converter
limits it. One multiply-accumulate is two operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cimopt.errors import InputError
from cimopt.evaluators.base import Evaluator, names
from cimopt.types import Designs, Metrics, Workload

OPS_PER_MAC = 2
S_PER_NS = 1e-9
OPS_PER_TERA_OP = 1e12


class Peak(Evaluator):
    """The shortest thinkable `latency_s` (n, w), and `peak_tops` (n, w) = operations / latency."""

    # Part of cache keys: raise `version` whenever results change.
    name, version = "peak", "2"
    # Everything `evaluate` reads from `designs`, and every metric it fills. Units are in the names.
    requires = (
        "xbar_rows",
        "xbar_cols",
        "macros_per_tile",
        "tiles_per_router",
        "router_groups",
        "bits_per_cell",
        "t_cycle_ns",
    )
    provides = ("peak_tops", "latency_s")

    def __init__(self, weight_bits: int | None = None) -> None:
        """Settings come from conf/evaluator/peak.yaml by keyword; a key that is not here is refused."""
        if weight_bits is not None and (type(weight_bits) is not int or weight_bits < 1):
            raise InputError(f"evaluator.peak.weight_bits={weight_bits!r} must be a whole number >= 1, or null")
        self.weight_bits = weight_bits

    def evaluate(self, designs: Designs, workloads: Sequence[Workload], detail: str = "totals") -> Metrics:
        """All n designs at once: each `designs[...]` is a column (n,)."""
        cells = designs["xbar_rows"] * designs["xbar_cols"] * designs["macros_per_tile"]
        cells = cells * designs["tiles_per_router"] * designs["router_groups"]  # per design: (n,)
        cycle_s = designs["t_cycle_ns"] * S_PER_NS
        uses = np.stack([self._cell_uses(w, designs["bits_per_cell"]) for w in workloads], axis=1)  # (n, w)
        latency_s = uses * (cycle_s / cells)[:, None]
        ops = np.array([OPS_PER_MAC * workload.macs for workload in workloads], dtype=float)  # (w,)
        return Metrics({"peak_tops": ops / latency_s / OPS_PER_TERA_OP, "latency_s": latency_s}, names(workloads))

    def _cell_uses(self, workload: Workload, bits_per_cell: np.ndarray) -> np.ndarray:
        """Cells times cycles that all products of a network need, (n,)."""
        uses = np.zeros(len(bits_per_cell))
        for layer in workload.layers:
            uses += layer.macs * np.ceil((self.weight_bits or layer.weight_bits) / bits_per_cell)
        return uses

    def cache_key(self) -> dict[str, int | None]:
        """Settings that change results, so that cached results of other settings are not reused."""
        return {"weight_bits": self.weight_bits}
