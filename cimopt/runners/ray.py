"""Ray actors, one built function each, on a local or a running cluster.

Ray is imported when used. An already initialised Ray is used and left running; one we start is
stopped on close. Ray's own token authentication stays as configured (on by default).
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cimopt.errors import InputError, MissingExtraError
from cimopt.runners.base import Function, Runner, WorkerFailure

POLL_S = 0.5


class _Worker:
    """The actor: builds the function once, then answers items."""

    def __init__(self, make: Callable[[], Function]) -> None:
        self._function = make()

    def ready(self) -> int:
        return os.getpid()

    def call(self, item: Any) -> Any:
        return self._function(item)


class RayRunner(Runner):
    """`workers` actors (None: one per CPU of the cluster), at most one item each in flight.

    A died worker is replaced and its item tried again up to `max_retries` times; an item that runs
    longer than `timeout_s` loses its worker and is not tried again.
    """

    def __init__(
        self, workers: int | None = None, *, address: str | None = None, max_retries: int = 1,
        timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        self._wanted, self._address = workers, address
        self._max_retries, self._timeout_s = max_retries, timeout_s
        self._ray: Any = None
        self._owns_ray = False
        self._idle: list[Any] = []

    @property
    def workers(self) -> int:
        return self._wanted or (self._cpus() if self._connected() else os.cpu_count() or 1)

    def start(self, make: Callable[[], Function]) -> None:
        self._ray = _import_ray()
        self._connect()
        try:
            self._make = self._ray.put(make)
        except Exception as error:
            raise InputError(_pickle_sentence(make, error)) from error
        self._actor = self._ray.remote(num_cpus=1, max_restarts=0)(_Worker)
        self._idle = [self._new_worker() for _ in range(self.workers)]
        self._wait_ready()

    def map(self, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        waiting = deque((index, 0) for index in range(len(items)))
        flying: dict[Any, tuple[int, int, Any, float]] = {}
        while waiting or flying:
            while waiting and self._idle:
                index, tried = waiting.popleft()
                worker = self._idle.pop()
                flying[worker.call.remote(items[index])] = (index, tried, worker, time.monotonic())
            ready, _ = self._ray.wait(list(flying), num_returns=1, timeout=POLL_S)
            for ref in ready:
                index, tried, worker, _began = flying.pop(ref)
                yield from self._collect(ref, index, tried, worker, waiting)
            yield from self._expire(flying)

    def close(self) -> None:
        if self._ray is None:
            return
        for worker in self._idle:
            self._ray.kill(worker)
        self._idle = []
        if self._owns_ray:
            self._ray.shutdown()
        self._ray = None

    # ---------------------------------------------------------------- inside
    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False, "ignore_reinit_error": True}
        if self._address is None:
            # 127.0.0.1 keeps a laptop's cluster off the network as far as Ray allows.
            cpus = self._wanted or os.cpu_count() or 1
            options |= {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            self._ray.init(address=self._address, **options)
        except ConnectionError as error:
            raise InputError(f"runner.address={self._address}: no Ray cluster answers there ({error})") from error
        self._owns_ray = True

    def _connected(self) -> bool:
        return self._ray is not None and self._ray.is_initialized()

    def _cpus(self) -> int:
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def _new_worker(self) -> Any:
        return self._actor.remote(self._make)

    def _wait_ready(self) -> None:
        """Building happens here, so that a worker that cannot build ends the study with its reason."""
        try:
            self._ray.get([worker.ready.remote() for worker in self._idle])
        except self._ray.exceptions.RayError as error:
            raise InputError(f"a Ray worker cannot build the evaluator: {_last_line(error)}") from error

    def _collect(self, ref: Any, index: int, tried: int, worker: Any, waiting: deque) -> Iterator[tuple[int, Any]]:
        exceptions = self._ray.exceptions
        try:
            result = self._ray.get(ref)
        except exceptions.RayTaskError as error:  # raised inside the function: the worker lives on
            self._idle.append(worker)
            raise error.as_instanceof_cause() from None
        except exceptions.RayError as error:  # the worker, its process or its node died
            self._idle.append(self._new_worker())
            if tried < self._max_retries:
                waiting.append((index, tried + 1))
            else:
                yield index, WorkerFailure(f"worker died {tried + 1} times ({type(error).__name__})")
            return
        self._idle.append(worker)
        yield index, result

    def _expire(self, flying: dict) -> Iterator[tuple[int, Any]]:
        if self._timeout_s is None:
            return
        now = time.monotonic()
        for ref, (index, _, worker, began) in list(flying.items()):
            if now - began > self._timeout_s:
                del flying[ref]
                self._ray.kill(worker)
                self._idle.append(self._new_worker())
                yield index, WorkerFailure(f"no answer within {self._timeout_s:g} s")


def _import_ray() -> Any:
    # Ray's usage statistics go out to the network; a tool must not do that unasked.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("runner=ray", "ray") from error
    return ray


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _pickle_sentence(make: Any, error: Exception) -> str:
    """Which attribute of what is sent cannot be pickled."""
    from ray import cloudpickle

    for name, value in _attributes(make):
        try:
            cloudpickle.dumps(value)
        except Exception:  # any failure here is the answer we look for
            return f"{name} ({type(value).__name__}) cannot be sent to Ray workers: {_last_line(error)}"
    return f"{type(make).__name__} cannot be sent to Ray workers: {_last_line(error)}"


def _attributes(thing: Any, path: str = "", depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Attributes, deepest first, so that the sentence names the culprit and not its owner."""
    for name, value in getattr(thing, "__dict__", {}).items():
        label = f"{path or type(thing).__name__}.{name}"
        if depth and hasattr(value, "__dict__"):
            yield from _attributes(value, label, depth - 1)
        yield label, value
