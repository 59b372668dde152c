"""How much network a design runs: what keeps a search over networks from ending at the smallest one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cimopt.evaluators.base import Evaluator, Workloads, names
from cimopt.types import Designs, Metrics, Workload

COUNTS: dict[str, Callable[[Workload], int]] = {
    "network_macs": lambda w: w.macs,
    "network_weights": lambda w: w.weights,
    "network_weight_bits": lambda w: sum(x.weights * x.weight_bits for x in w.layers if not x.dynamic),
    "network_bit_operations": lambda w: sum(x.macs * x.weight_bits * x.activation_bits for x in w.layers),
}


class NetworkSize(Evaluator):
    """Counts of each workload: multiply-accumulates, weights, bits of all weights, bit operations.

    Bit operations are products of two bits: MACs x weight bits x activation bits, the usual size of a network
    with mixed widths (Baskin et al. 2018, arXiv 1804.10969, without its accumulator term).
    """

    name, version = "network_size", "1"
    requires, provides = (), tuple(COUNTS)
    cheap = True

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        row = {name: np.array([float(count(w)) for w in workloads]) for name, count in COUNTS.items()}
        return Metrics({name: np.tile(values, (len(designs), 1)) for name, values in row.items()}, names(workloads))
