"""Dataflows: how the operations of one layer queue for its copies (Breaking Barriers, sections II and III-C).

Layer-wise: a duplicate of the whole matrix takes a patch, all its blocks start together and wait for the
slowest. Block-wise: every block has its own copies and its own queue of all patches, without a barrier.
Both serve patches in order, each by the first free copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt_zeroskip.bits import _forms

DATAFLOWS = ("layer", "block")
NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Run:
    """One layer, one image.

    Attributes:
        cycles: until the last operation ends.
        busy: array-cycles spent in operations, over all arrays.
        stall: array-cycles spent waiting: arrays * cycles - busy.
        block_busy: cycles spent by all copies of each block, int64 ``(blocks,)`` (not times arrays).
        block_cycles: end of each block's last operation, int64 ``(blocks,)``.
        arrays: arrays in use.
    """

    cycles: int
    busy: int
    stall: int
    block_busy: np.ndarray
    block_cycles: np.ndarray
    arrays: int


def simulate(
    op_cycles: np.ndarray,
    copies: int | Sequence[int],
    *,
    dataflow: str,
    arrays_per_block: int = 1,
    compiled: bool = True,
) -> Run:
    """Exact cycles, busy and stall of one layer for one image.

    Args:
        op_cycles: ``(patches, blocks)``, from `cimopt_zeroskip.op_cycles`.
        copies: "layer": duplicates of the whole matrix; "block": copies of each block.
        dataflow: "layer" or "block".
        arrays_per_block: arrays side by side that share word lines and run in lock step.
        compiled: numba loop (True) or plain Python, equal results.
    """
    times = np.asarray(op_cycles)
    if times.ndim != 2 or times.dtype.kind not in "iu" or (times.size and times.min() < 0):
        raise InputError(f"op_cycles must be whole numbers >= 0 (patches, blocks), got {times.dtype} {times.shape}")
    blocks = times.shape[1]
    numbers = _copies(copies, dataflow, blocks)
    jobs = np.ascontiguousarray(times.T, dtype=np.int64)[None]
    if dataflow == "layer":
        ends = _forms(compiled).unit_cycles(jobs.max(axis=1, keepdims=True), numbers[:1], NO_LIMIT).repeat(blocks)
    else:
        ends = _forms(compiled).unit_cycles(jobs, numbers, NO_LIMIT)
    block_busy = times.sum(axis=0, dtype=np.int64)
    cycles, arrays = int(ends.max()), int(numbers.sum()) * arrays_per_block
    busy = int(block_busy.sum()) * arrays_per_block
    return Run(cycles, busy, arrays * cycles - busy, block_busy, ends, arrays)


def _copies(copies: int | Sequence[int], dataflow: str, blocks: int) -> np.ndarray:
    """Copies of every block, int64 ``(blocks,)``."""
    if dataflow not in DATAFLOWS:
        raise unknown_name("dataflow", dataflow, DATAFLOWS)
    given = np.asarray(copies)
    wanted = () if dataflow == "layer" else (blocks,)
    if given.shape != wanted or given.dtype.kind not in "iu" or given.min() < 1:
        what = "one whole number" if dataflow == "layer" else f"{blocks} whole numbers, one per block,"
        raise InputError(f"copies={copies!r} must be {what} >= 1 for dataflow '{dataflow}'")
    return np.broadcast_to(given.astype(np.int64), (blocks,))
