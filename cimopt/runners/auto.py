"""Serial for fast models, Ray for slow ones: decided by measuring the first items."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cimopt.runners.base import Function, Runner
from cimopt.runners.serial import SerialRunner

# Below this a task's way to a Ray worker and back costs more than it saves (reference: about
# 1.4 ms a round trip and 5 s to start).
RAY_PAYS_S = 0.010


class AutoRunner(Runner):
    """Starts serial; moves to `make_ray()` when an item, after warm-up, takes RAY_PAYS_S or more per design."""

    def __init__(self, make_ray: Callable[[], Runner], size: Callable[[Any], int]) -> None:
        self._serial = SerialRunner()
        self._make_ray, self._size = make_ray, size
        self._ray: Runner | None = None
        self._seen = 0
        self._make: Callable[[], Function] | None = None

    @property
    def workers(self) -> int:
        return self._ray.workers if self._ray else 1

    def start(self, make: Callable[[], Function]) -> None:
        self._make = make
        self._serial.start(make)

    def map(self, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        if self._ray is not None:
            yield from self._ray.map(items)
            return
        for index, item in enumerate(items):
            began = time.perf_counter()
            yield next((index, result) for _, result in self._serial.map([item]))
            per_design = (time.perf_counter() - began) / max(self._size(item), 1)
            self._seen += 1
            if self._seen > 1 and per_design >= RAY_PAYS_S:  # the first item pays for set-up
                self._ray = self._make_ray()
                self._ray.start(self._make)
                rest = items[index + 1 :]
                yield from ((index + 1 + k, result) for k, result in self._ray.map(rest))
                return

    def close(self) -> None:
        if self._ray is not None:
            self._ray.close()
