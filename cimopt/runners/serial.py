"""Everything in the driver's own process: right for models that take microseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cimopt.runners.base import Function, Runner


class SerialRunner(Runner):
    """Builds the function on first use."""

    def __init__(self) -> None:
        self._make: Callable[[], Function] | None = None
        self._function: Function | None = None

    def start(self, make: Callable[[], Function]) -> None:
        self._make, self._function = make, None

    def map(self, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        if self._function is None:
            self._function = self._make()
        for index, item in enumerate(items):
            yield index, self._function(item)
