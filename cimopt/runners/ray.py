"""Ray actors, one built function each, on a local or a running cluster.

Ray is imported when used. An already initialised Ray is used and left running; one we start is
stopped on close. Ray's own token authentication stays as configured (on by default).
"""

from __future__ import annotations

import logging
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cimopt.errors import InputError
from cimopt.runners.base import Function, Runner, WorkerFailure
from cimopt.runners.ray_setup import Resources, check_fits, connect, held, import_ray, last_line, pickle_sentence

POLL_S = 0.5
# A cluster whose CPUs are all taken (by the jobs that wait for them, perhaps) is given this long.
START_S = 300.0
MIN_TIMED = 5  # answers before "unusually slow" means something
GROW_S = 5.0  # how often nodes that joined the cluster are looked for
log = logging.getLogger(__name__)


class _Worker:
    """The actor: builds the function once, then answers items."""

    def __init__(self, make: Callable[[], Function]) -> None:
        self._function = make()

    def ready(self) -> int:
        return os.getpid()

    def call(self, item: Any) -> Any:
        return self._function(item)


@dataclass(frozen=True)
class _Flight:
    """One item on its way: its place, earlier tries, size in designs, worker, and when it began."""

    index: int
    tried: int
    size: int
    worker: Any
    began: float


class RayRunner(Runner):
    """`workers` actors (None: as many as the cluster holds, later nodes included), at most one item each in flight.

    A died worker is replaced and its item tried again up to `max_retries` times. An item that runs
    longer than `timeout_s` per design loses its worker and is not tried again. With
    `reissue_factor`, an item that takes that many times the usual time per design is also given to an
    idle worker once nothing else waits; the first answer counts and the other is dropped.
    """

    def __init__(
        self, workers: int | None = None, *, address: str | None = None, max_retries: int = 1, timeout_s: float | None = None,
        reissue_factor: float | None = None, resources: Resources | None = None, size: Callable[[Any], int] = lambda item: 1,
    ) -> None:  # fmt: skip
        self._wanted, self._address = workers, address
        self._max_retries, self._timeout_s, self._reissue_factor = max_retries, timeout_s, reissue_factor
        self._resources, self._size = resources or Resources(), size
        self._ray: Any = None
        self._owns_ray = False
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}  # a worker counts from the moment it is built
        self._broken_starts = 0
        self._looked = 0.0
        self._per_design: deque[float] = deque(maxlen=200)

    @property
    def workers(self) -> int:
        if self._wanted:
            return self._wanted
        if self._ray is None or not self._ray.is_initialized():
            return os.cpu_count() or 1
        return max(held(self._ray, self._resources), 1)

    def start(self, make: Callable[[], Function]) -> None:
        self._ray = import_ray()
        self._owns_ray = connect(self._ray, self._address, self._wanted, self._resources)
        check_fits(self._ray, self._resources)
        try:
            self._make = self._ray.put(make)
        except Exception as error:
            raise InputError(pickle_sentence(make, error)) from error
        self._actor = self._ray.remote(max_restarts=0, **self._resources.options)(_Worker)
        for _ in range(self.workers):
            self._hire()
        self._wait_for_first()

    def map(self, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        waiting = deque((index, 0) for index in range(len(items)))
        flying: dict[Any, _Flight] = {}
        left = set(range(len(items)))
        try:
            while left:
                self._grow(len(flying))
                self._launch(items, waiting, flying)
                for ref in self._next(flying):
                    flight = flying.pop(ref)
                    yield from self._collect(ref, flight, waiting, flying, left)
                yield from self._expire(flying, left)
        finally:  # an exception, or a caller that stops: nobody waits for these any more
            for flight in flying.values():
                self._replace(flight.worker)

    def close(self) -> None:
        if self._ray is None:
            return
        for worker in (*self._idle, *self._starting.values()):
            self._ray.kill(worker)
        self._idle, self._starting = [], {}
        if self._owns_ray:
            self._ray.shutdown()
        self._ray = None

    # -------------------------------------------------------------- workers
    def _hire(self) -> None:
        worker = self._actor.remote(self._make)
        self._starting[worker.ready.remote()] = worker

    def _grow(self, flying: int) -> None:
        """Workers for nodes that joined after the start."""
        now = time.monotonic()
        if self._wanted or now - self._looked < GROW_S:
            return
        self._looked = now
        for _ in range(self.workers - len(self._idle) - len(self._starting) - flying):
            self._hire()

    def _replace(self, worker: Any) -> None:
        self._ray.kill(worker)
        self._hire()

    def _wait_for_first(self) -> None:
        """Building happens here, so that a worker that cannot build ends the study with its reason."""
        until = time.monotonic() + START_S
        while not self._idle:
            ready, _ = self._ray.wait(list(self._starting), num_returns=1, timeout=POLL_S)
            for ref in ready:
                self._admit(ref)
            if time.monotonic() > until:
                raise InputError(
                    f"no Ray worker could start within {START_S:g} s: the cluster's resources are taken "
                    f"({self._ray.available_resources()})"
                )

    def _admit(self, ref: Any) -> None:
        """A worker that has been built becomes idle; one that cannot be built is tried elsewhere, then ends the study."""
        worker = self._starting.pop(ref)
        try:
            self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            self._broken_starts += 1
            if not self._idle or self._broken_starts > 2 * self.workers:
                raise InputError(_cannot_build(error)) from error
            log.warning("a Ray worker could not start (%s); another is started", last_line(error))
            self._hire()
            return
        self._broken_starts = 0
        self._idle.append(worker)

    # -------------------------------------------------------------- flights
    def _launch(self, items: Sequence[Any], waiting: deque, flying: dict[Any, _Flight]) -> None:
        """One item per idle worker; nothing is sent ahead, so the cluster never holds more than it works on."""
        while waiting and self._idle:
            index, tried = waiting.popleft()
            self._send(items, index, tried, flying)
        if not waiting and self._idle:
            for late in self._stragglers(flying)[: len(self._idle)]:
                self._send(items, late.index, late.tried, flying)

    def _send(self, items: Sequence[Any], index: int, tried: int, flying: dict[Any, _Flight]) -> None:
        worker = self._idle.pop()
        size = max(self._size(items[index]), 1)
        flying[worker.call.remote(items[index])] = _Flight(index, tried, size, worker, time.monotonic())

    def _stragglers(self, flying: dict[Any, _Flight]) -> list[_Flight]:
        """Items that take unusually long and have no second copy yet."""
        if self._reissue_factor is None or len(self._per_design) < MIN_TIMED:
            return []
        limit, now = self._reissue_factor * statistics.median(self._per_design), time.monotonic()
        indices = [flight.index for flight in flying.values()]
        late = [f for f in flying.values() if now - f.began > max(limit * f.size, POLL_S)]
        return [f for f in late if indices.count(f.index) == 1]

    def _next(self, flying: dict[Any, _Flight]) -> list[Any]:
        """Answers that have arrived; workers that have been built are taken in on the way."""
        ready, _ = self._ray.wait([*flying, *self._starting], num_returns=1, timeout=POLL_S)
        for ref in ready:
            if ref in self._starting:
                self._admit(ref)
        return [ref for ref in ready if ref in flying]

    def _collect(
        self, ref: Any, flight: _Flight, waiting: deque, flying: dict[Any, _Flight], left: set[int]
    ) -> Iterator[tuple[int, Any]]:
        exceptions = self._ray.exceptions
        try:
            result = self._ray.get(ref)
        except exceptions.RayTaskError as error:  # raised inside the function: the worker lives on
            self._idle.append(flight.worker)
            raise error.as_instanceof_cause() from None
        except exceptions.RayError as error:  # the worker, its process or its node died
            self._hire()
            yield from self._died(flight, error, waiting, flying, left)
            return
        self._idle.append(flight.worker)
        self._per_design.append((time.monotonic() - flight.began) / flight.size)
        left.discard(flight.index)
        self._drop_copies(flight.index, flying)
        yield flight.index, result

    def _died(
        self, flight: _Flight, error: Exception, waiting: deque, flying: dict[Any, _Flight], left: set[int]
    ) -> Iterator[tuple[int, Any]]:
        if any(other.index == flight.index for other in flying.values()):
            return  # its copy decides
        if flight.tried < self._max_retries:
            waiting.append((flight.index, flight.tried + 1))
            return
        left.discard(flight.index)
        yield flight.index, WorkerFailure(f"worker died {flight.tried + 1} times ({type(error).__name__})")

    def _drop_copies(self, index: int, flying: dict[Any, _Flight]) -> None:
        for ref in [ref for ref, flight in flying.items() if flight.index == index]:
            self._replace(flying.pop(ref).worker)

    def _expire(self, flying: dict[Any, _Flight], left: set[int]) -> Iterator[tuple[int, Any]]:
        if self._timeout_s is None:
            return
        now = time.monotonic()
        for ref, flight in list(flying.items()):
            limit = self._timeout_s * flight.size
            if ref not in flying or now - flight.began <= limit:
                continue
            del flying[ref]
            self._replace(flight.worker)
            if not any(other.index == flight.index for other in flying.values()):
                left.discard(flight.index)
                yield flight.index, WorkerFailure(f"no answer within {limit:g} s")


def _cannot_build(error: BaseException) -> str:
    reason = last_line(error)
    missing = any(words in reason for words in ("No module named", "unknown evaluator", "PackageNotFoundError"))
    hint = "; install the same cimopt and plug-ins on every node of the cluster (docs/cluster)" if missing else ""
    return f"a Ray worker cannot build the evaluator: {reason}{hint}"
