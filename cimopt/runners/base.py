"""The runner contract: one function, built once per worker, over many items.

`start(make)` is called once by the driver before anything runs; `make()` is called in every worker
and gives the function. `map(items)` may be called many times and yields `(index, result)` in any
order, exactly once per item. A worker that dies gives `WorkerFailure` instead of ending the map.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class WorkerFailure:
    """What an item got when its worker died or ran out of time."""

    reason: str


class Runner(ABC):
    """Context manager; `workers` is how many items run at once."""

    workers: int = 1

    @abstractmethod
    def start(self, make: Callable[[], Function]) -> None:
        """Prepare the workers. Raises InputError when `make` cannot reach them."""

    @abstractmethod
    def map(self, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield (index, result) for every item, each once."""

    def close(self) -> None:
        """Free the workers; safe to call twice."""

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
