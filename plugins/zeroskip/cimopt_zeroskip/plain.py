"""The hot loops in plain NumPy and heapq: the readable form, equal to `cimopt_zeroskip.kernels` number for number."""

from __future__ import annotations

import heapq
import itertools

import numpy as np

LANE_ROWS = 255
CHUNK_VALUES = 1 << 22  # table words held at once: 32 MiB


def count_planes(
    flat: np.ndarray, bases: np.ndarray, offsets: np.ndarray, bounds: np.ndarray, lanes: np.ndarray, out: np.ndarray
) -> None:
    """As `kernels.count_planes`: runs of at most 255 rows are summed lane-wise, then split into planes."""
    cuts, block = _runs(bounds)
    step = max(1, CHUNK_VALUES // max(1, len(offsets)))
    shifts = np.arange(8, dtype=np.uint64) * np.uint64(8)
    for low in range(0, len(bases), step):
        words = lanes[flat[bases[low : low + step, None] + offsets]]
        sums = np.add.reduceat(words, cuts, axis=1)
        planes = ((sums[:, :, None] >> shifts) & np.uint64(255)).astype(np.int16)
        for run, b in enumerate(block):
            out[low : low + step, b] += planes[:, run]


def _runs(bounds: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Starts of runs of at most 255 rows, and the block each belongs to."""
    pairs = [
        (start, b) for b, (low, high) in enumerate(itertools.pairwise(bounds)) for start in range(low, high, LANE_ROWS)
    ]
    return np.array([start for start, _ in pairs]), [b for _, b in pairs]


def sum_costs(counts: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """As `kernels.sum_costs`."""
    out[:] = sum(table[k][counts[:, :, k]] for k in range(counts.shape[2])).T


def makespan(times: np.ndarray, copies: int, limit: int = np.iinfo(np.int64).max) -> int:
    """As `kernels.makespan`."""
    if copies >= len(times):
        return int(max(times, default=0))
    if copies == 1:
        return int(np.sum(times, dtype=np.int64))
    free, last = [0] * copies, 0
    for time in times.tolist():
        end = free[0] + time
        heapq.heapreplace(free, end)
        last = max(last, end)
        if last > limit:
            return last
    return last


def unit_cycles(jobs: np.ndarray, copies: np.ndarray, limit: int) -> np.ndarray:
    """As `kernels.unit_cycles` (without the early stop, which changes nothing below the limit)."""
    return np.array(
        [sum(makespan(image[u], int(copies[u])) for image in jobs) for u in range(jobs.shape[1])], dtype=np.int64
    )


def fewest_copies(jobs: np.ndarray, totals: np.ndarray, limit: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """As `kernels.fewest_copies`, by trying one number after the other."""
    out = np.zeros(jobs.shape[1], dtype=np.int64)
    for u in range(jobs.shape[1]):
        for copies in range(max(1, int(low[u])), jobs.shape[2] + 1):
            if sum(makespan(image[u], copies) for image in jobs) <= limit:
                out[u] = copies
                break
    return out


def greedy(work: np.ndarray, sizes: np.ndarray, copies: np.ndarray, left: int) -> int:
    """As `kernels.greedy`, by scanning for the highest estimate."""
    while len(work):
        top = int(np.argmax(work / copies))
        if sizes[top] > left:
            break
        left -= int(sizes[top])
        copies[top] += 1
    return left
