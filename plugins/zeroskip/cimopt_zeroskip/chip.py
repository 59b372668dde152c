"""A network on a chip of n arrays: allocation policies, and the run that follows from them.

| paper's name | policy | dataflow | skip |
|---|---|---|---|
| baseline | profile | layer | off |
| weight-based | weight | layer | on |
| performance-based layer-wise | profile | layer | on |
| block-wise | profile | block | on |

Ours: ``op_count`` counts array operations instead of weights, without a profile; ``optimal`` minimises the
simulated bottleneck, provably (`cimopt_zeroskip.allocation.allocate_exact`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cimopt.errors import unknown_name
from cimopt_zeroskip.allocation import allocate, allocate_exact
from cimopt_zeroskip.queueing import DATAFLOWS
from cimopt_zeroskip.work import LayerWork

POLICIES = ("weight", "op_count", "profile", "optimal")
PAPER_POLICIES = {
    "baseline": ("profile", "layer", False),
    "weight-based": ("weight", "layer", True),
    "performance-based": ("profile", "layer", True),
    "block-wise": ("profile", "block", True),
}


@dataclass(frozen=True)
class ChipRun:
    """One image through a pipelined chip; L layers.

    Attributes:
        copies: per layer: int64 ``(blocks,)``; equal numbers where duplicates are whole layers.
        layer_cycles: float64 ``(L,)``.
        layer_arrays: int64 ``(L,)``, allocated.
        layer_busy: float64 ``(L,)``, array-cycles.
        n_arrays: arrays on the chip.
    """

    copies: tuple[np.ndarray, ...]
    layer_cycles: np.ndarray
    layer_arrays: np.ndarray
    layer_busy: np.ndarray
    n_arrays: int

    @property
    def cycles(self) -> float:
        """The slowest layer: a new image enters every that many cycles."""
        return float(self.layer_cycles.max())

    @property
    def latency_cycles(self) -> float:
        """One image from the first layer's start to the last layer's end, layer after layer."""
        return float(self.layer_cycles.sum())

    @property
    def layer_stall(self) -> np.ndarray:
        """Array-cycles waited within a layer's own run, ``(L,)``."""
        return self.layer_arrays * self.layer_cycles - self.layer_busy

    @property
    def layer_utilization(self) -> np.ndarray:
        """As Fig 9: busy over arrays x slowest layer's cycles, so waiting for that layer is idle too, ``(L,)``."""
        return self.layer_busy / (self.layer_arrays * self.cycles)

    @property
    def utilization(self) -> float:
        """Busy share of all arrays on the chip, unallocated ones included."""
        return float(self.layer_busy.sum() / (self.n_arrays * self.cycles))

    def throughput_ips(self, clock_hz: float) -> float:
        """Images per second."""
        return clock_hz / self.cycles


def needed_arrays(works: Sequence[LayerWork]) -> int:
    """Arrays of one copy of the network."""
    return sum(work.mapped.arrays for work in works)


def units(works: Sequence[LayerWork], dataflow: str) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of what is duplicated and the layer each belongs to, int64 ``(units,)`` each."""
    if dataflow not in DATAFLOWS:
        raise unknown_name("dataflow", dataflow, DATAFLOWS)
    if dataflow == "layer":
        return np.array([w.mapped.arrays for w in works]), np.arange(len(works))
    sizes = np.concatenate([np.full(w.mapped.blocks, w.mapped.arrays_per_block) for w in works])
    return sizes, np.repeat(np.arange(len(works)), [w.mapped.blocks for w in works])


def expected_work(works: Sequence[LayerWork], policy: str, dataflow: str, n_arrays: int) -> np.ndarray:
    """What the greedy divides by copies, float64 ``(units,)`` (the paper's section III-B)."""
    _, layer = units(works, dataflow)
    if policy == "weight":  # every array is taken to do as many MACs per cycle
        return np.array([w.mapped.macs / w.mapped.arrays for w in works])[layer]
    if policy == "op_count":
        dense = [float(w.mapped.patches * w.mapped.spec.dense_cycles(w.mapped.spec.xbar_rows)) for w in works]
        return np.array(dense)[layer]
    if dataflow == "block":
        return np.concatenate([w.block_total for w in works])
    if policy == "optimal":
        return np.array([w.sync_total for w in works])
    first = plan(works, n_arrays, "weight", "layer")
    return np.array([w.shared_cycles(int(d[0])) * int(d[0]) for w, d in zip(works, first, strict=True)])


def plan(works: Sequence[LayerWork], n_arrays: int, policy: str, dataflow: str) -> tuple[np.ndarray, ...]:
    """Copies of every block of every layer.

    Raises:
        InputError: one copy of the network does not fit into ``n_arrays``, or a name is unknown.
    """
    if policy not in POLICIES:
        raise unknown_name("allocation", policy, POLICIES)
    sizes, layer = units(works, dataflow)
    work = expected_work(works, policy, dataflow, n_arrays)
    if policy == "optimal":
        copies = allocate_exact(
            lambda limit, low, high: _fewest(works, layer, dataflow, limit, low, high),
            lambda given: _cycles(works, layer, dataflow, given),
            work, sizes, n_arrays,
        )  # fmt: skip
    else:
        copies = allocate(work, sizes, n_arrays)
    return _spread(works, copies, layer, dataflow)


def _fewest(
    works: Sequence[LayerWork], layer: np.ndarray, dataflow: str, limit: int, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    return np.concatenate([w.fewest(dataflow, limit, low[layer == i], high[layer == i]) for i, w in enumerate(works)])


def _cycles(works: Sequence[LayerWork], layer: np.ndarray, dataflow: str, copies: np.ndarray) -> np.ndarray:
    if dataflow == "layer":
        return np.array([w.layer_cycles(int(d)) for w, d in zip(works, copies, strict=True)])
    return np.concatenate([w.block_cycles(copies[layer == i]) for i, w in enumerate(works)])


def _spread(works: Sequence[LayerWork], copies: np.ndarray, layer: np.ndarray, dataflow: str) -> tuple[np.ndarray, ...]:
    if dataflow == "layer":
        return tuple(np.full(w.mapped.blocks, d) for w, d in zip(works, copies, strict=True))
    return tuple(np.split(copies, np.flatnonzero(np.diff(layer)) + 1))


def run(works: Sequence[LayerWork], copies: Sequence[np.ndarray], dataflow: str, n_arrays: int) -> ChipRun:
    """Cycles, busy and stall of every layer; each layer runs alone from cycle 0, as in the paper's simulator."""
    cycles, arrays, busy = [], [], []
    for work, given in zip(works, copies, strict=True):
        if dataflow == "layer":
            cycles.append(work.layer_cycles(int(given[0])))
        else:
            cycles.append(float(work.block_cycles(given).max()))
        arrays.append(int(given.sum()) * work.mapped.arrays_per_block)
        busy.append(float(work.block_total.sum()) * work.mapped.arrays_per_block)
    return ChipRun(tuple(copies), np.array(cycles), np.array(arrays), np.array(busy), n_arrays)


def plan_and_run(works: Sequence[LayerWork], n_arrays: int, policy: str, dataflow: str) -> ChipRun:
    """`plan`, then `run`."""
    return run(works, plan(works, n_arrays, policy, dataflow), dataflow, n_arrays)


def fluid_bound(works: Sequence[LayerWork], n_arrays: int, dataflow: str) -> float:
    """Cycles that no allocation beats: the smallest largest work / copies (the greedy attains it for totals)."""
    sizes, _ = units(works, dataflow)
    work = expected_work(works, "optimal", dataflow, n_arrays)
    return float((work / allocate(work, sizes, n_arrays)).max())
