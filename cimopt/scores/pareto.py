"""Pareto fronts of many points, all coordinates minimised: fronts, crowding, hypervolume."""

from __future__ import annotations

import numpy as np


def non_dominated(points: np.ndarray) -> np.ndarray:
    """Rows that no other row dominates, int (k,), in lexicographic order; equal rows are all kept.

    `points` is (n, m). One front member after another removes what it dominates, the most central ones
    first, so the rest shrinks quickly.
    """
    if not len(points):
        return np.zeros(0, dtype=np.int64)
    scale = np.abs(points).mean(axis=0)
    rows = np.argsort((points / np.where(scale > 0, scale, 1.0)).sum(axis=1), kind="stable")
    left = points[rows]
    place = 0
    while place < len(left):
        keep = _not_dominated_by(left[place], left)
        left, rows = left[keep], rows[keep]
        place = int(np.count_nonzero(keep[:place])) + 1
    return rows[np.lexsort((rows, *left.T[::-1]))]


def _not_dominated_by(point: np.ndarray, points: np.ndarray) -> np.ndarray:
    """bool (n,): better somewhere, or equal everywhere. Column by column: NumPy is slow along a short axis."""
    better, equal = points[:, 0] < point[0], points[:, 0] == point[0]
    for k in range(1, points.shape[1]):
        better |= points[:, k] < point[k]
        equal &= points[:, k] == point[k]
    return better | equal


def merge_front(front: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of a known front and of new points form the joint front: two index arrays."""
    own = non_dominated(points)
    joint = np.concatenate([front, points[own]]) if len(front) else points[own]
    kept = non_dominated(joint)
    return kept[kept < len(front)], own[kept[kept >= len(front)] - len(front)]


def front_ranks(points: np.ndarray) -> np.ndarray:
    """Front number of every row, int (n,): 0 for rows nobody dominates, 1 for those left then, and so on.

    Deb's non-dominated sorting; equal rows share a front.
    """
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)
    better = (points[:, None, :] < points[None, :, :]).any(axis=2)
    dominates = no_worse & better
    ranks = np.full(len(points), -1, dtype=np.int64)
    left = np.ones(len(points), dtype=bool)
    front = 0
    while left.any():
        now = left & ~(dominates & left[:, None]).any(axis=0)
        ranks[now] = front
        left &= ~now
        front += 1
    return ranks


def crowding(points: np.ndarray) -> np.ndarray:
    """Crowding distance of every row within its own set, (n,): larger is lonelier, ends are infinite.

    Deb et al. 2002 (NSGA-II): the sum over coordinates of the gap between both neighbours, relative to
    the range.
    """
    n = len(points)
    distance = np.zeros(n)
    for column in points.T:
        order = np.argsort(column, kind="stable")
        span = column[order[-1]] - column[order[0]]
        distance[order[[0, -1]]] = np.inf
        if span > 0 and n > 2:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    return distance


def hypervolume(points: np.ndarray, reference: np.ndarray) -> float:
    """Volume that the points dominate up to `reference` (m,); exact, by slicing along the last coordinate."""
    points = points[(points < reference).all(axis=1)]
    if not len(points):
        return 0.0
    if points.shape[1] == 1:
        return float(reference[0] - points.min())
    points = points[np.argsort(points[:, -1], kind="stable")]
    ends = np.append(points[1:, -1], reference[-1])
    total = 0.0
    for k, depth in enumerate(ends - points[:, -1]):
        if depth > 0:
            slab = points[: k + 1, :-1]
            total += depth * hypervolume(slab[non_dominated(slab)], reference[:-1])
    return total
