"""Rows kept for as long as the stage tables that point into them: only what fits takes memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

ABSENT = -1


class Pool:
    """Growing arrays of equal length, named; a slot is a row, `ABSENT` stands for a row that was never added."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self.used = 0

    def extend(self, parts: Mapping[str, np.ndarray]) -> np.ndarray:
        """Add rows ``(m, ...)`` and return their slots ``(m,)``; grows by half, so that n additions cost O(n)."""
        m = len(next(iter(parts.values())))
        for name, new in parts.items():
            old = self._arrays.get(name)
            if old is None or len(old) < self.used + m:
                grown = np.empty((max(self.used + m, self.used * 3 // 2), *new.shape[1:]), new.dtype)
                if old is not None:
                    grown[: self.used] = old[: self.used]
                self._arrays[name] = grown
            self._arrays[name][self.used : self.used + m] = new
        self.used += m
        return np.arange(self.used - m, self.used)

    def array(self, name: str) -> np.ndarray:
        """All rows of one array, ``(used, ...)``."""
        return self._arrays[name][: self.used]

    def take(self, name: str, slots: np.ndarray) -> np.ndarray:
        """Rows at ``slots``, NaN where absent."""
        known = self.array(name)
        found = np.full((len(slots), *known.shape[1:]), np.nan, known.dtype)
        found[slots != ABSENT] = known[slots[slots != ABSENT]]
        return found
