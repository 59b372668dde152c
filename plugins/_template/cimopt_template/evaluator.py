"""Peak throughput of an in-memory-computing chip: every cell busy in every cycle.

peak = 2 x rows x cols x macros / (slices x t_cycle), one multiply-accumulate being two operations and
slices = ceil(weight_bits / bits_per_cell) the cells one weight takes. It is an upper bound: no mapping, no
bandwidth, no converter limits it.
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
    """`peak_tops` (n,) and the shortest thinkable `latency_s` (n, w) = operations / peak."""

    # Part of cache keys: raise `version` whenever results change.
    name, version = "peak", "1"
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

    def __init__(self, weight_bits: int = 8) -> None:
        """Settings come from conf/evaluator/peak.yaml by keyword; a key that is not here is refused."""
        if type(weight_bits) is not int or weight_bits < 1:
            raise InputError(f"evaluator.peak.weight_bits={weight_bits!r} must be a whole number >= 1")
        self.weight_bits = weight_bits

    def evaluate(self, designs: Designs, workloads: Sequence[Workload], detail: str = "totals") -> Metrics:
        """All n designs at once: each `designs[...]` is a column (n,)."""
        ops_per_s = self._peak_ops_per_s(designs)  # (n,)
        ops = np.array([OPS_PER_MAC * workload.macs for workload in workloads], dtype=float)  # (w,)
        values = {
            "peak_tops": ops_per_s / OPS_PER_TERA_OP,  # per design: (n,)
            "latency_s": ops / ops_per_s[:, None],  # per design and workload: (n, w)
        }
        return Metrics(values, names(workloads))

    def _peak_ops_per_s(self, designs: Designs) -> np.ndarray:
        cells_per_macro = designs["xbar_rows"] * designs["xbar_cols"]
        macros = designs["macros_per_tile"] * designs["tiles_per_router"] * designs["router_groups"]
        slices = np.ceil(self.weight_bits / designs["bits_per_cell"])
        cycle_s = designs["t_cycle_ns"] * S_PER_NS
        return OPS_PER_MAC * cells_per_macro * macros / (slices * cycle_s)

    def cache_key(self) -> dict[str, int]:
        """Settings that change results, so that cached results of other settings are not reused."""
        return {"weight_bits": self.weight_bits}
