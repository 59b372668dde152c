"""Pareto fronts of many points, all coordinates minimised: fronts, crowding, hypervolume."""

from __future__ import annotations

import numpy as np

SCREEN = 64  # points of the known front that screen a chunk before the exact test


def non_dominated(points: np.ndarray) -> np.ndarray:
    """Rows that no other row dominates, int (k,), in lexicographic order; equal rows are all kept.

    `points` is (n, m). Sorted by the first coordinates, a row can only be dominated by an earlier
    one, so one pass against the growing front suffices.
    """
    order = np.lexsort(points.T[::-1])
    kept: list[int] = []
    front = np.empty_like(points)
    for row in order:
        point = points[row]
        known = front[: len(kept)]
        no_worse = (known <= point).all(axis=1)
        if not (no_worse & (known < point).any(axis=1)).any():
            front[len(kept)] = point
            kept.append(int(row))
    return np.array(kept, dtype=np.int64)


def merge_front(front: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of a known front and of new points form the joint front: two index arrays."""
    left = np.arange(len(points))
    if len(front) and len(points):
        for k in np.linspace(0, len(front) - 1, min(SCREEN, len(front))).astype(int):
            some = points[left]
            left = left[~((front[k] <= some).all(axis=1) & (front[k] < some).any(axis=1))]
    own = left[_screened(points[left])]
    joint = np.concatenate([front, points[own]]) if len(front) else points[own]
    kept = non_dominated(joint)
    return kept[kept < len(front)], own[kept[kept >= len(front)] - len(front)]


def _screened(points: np.ndarray) -> np.ndarray:
    """Drop rows that a few good rows of the same set dominate; a cheap first pass before the exact one."""
    left = np.arange(len(points))
    if len(points) <= SCREEN:
        return left
    logs = np.log(np.maximum(points - points.min(axis=0) + 1e-300, 1e-300))
    pivots = {int(i) for i in points.argmin(axis=0)} | {int(i) for i in np.argsort(logs.sum(axis=1))[:SCREEN]}
    for k in sorted(pivots):
        some = points[left]
        left = left[~((points[k] <= some).all(axis=1) & (points[k] < some).any(axis=1))]
    return left


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
