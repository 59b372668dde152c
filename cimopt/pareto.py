"""Non-dominated rows of many points, all coordinates minimised."""

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
