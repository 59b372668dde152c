"""Evaluators that wrap another one behind the same interface, one concern each."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.errors import CimoptError, InputError
from cimopt.evaluators.base import Evaluator, Workloads, names
from cimopt.types import Designs, Limit, Metrics, fingerprint

# A Ray task should be long against its round trip of about a millisecond.
CHUNK_S = 0.1
OnResult = Callable[[np.ndarray, Metrics], None]


class Wrapper(Evaluator):
    """Takes name, requires, provides and precheck from the inner evaluator.

    A wrapper that `streams` calls `on_result(rows, metrics)` as soon as some designs of a batch are
    done, each row once; the driver saves them then, so that a kill loses nothing finished.
    """

    streams = False
    passes_on = True

    def __init__(self, inner: Evaluator) -> None:
        self.inner = inner
        self.on_result: OnResult = lambda rows, metrics: None
        self.name, self.version = inner.name, inner.version
        self.requires, self.provides = inner.requires, inner.provides

    def cache_key(self) -> dict[str, Any]:
        return self.inner.cache_key()

    def precheck(self, designs: Designs, workloads: Workloads) -> dict[str, np.ndarray]:
        return self.inner.precheck(designs, workloads)


class Guarded(Wrapper):
    """Turns an exception into an error outcome of the design that caused it.

    A failing batch is halved until the failing designs stand alone; the others keep their results.
    Errors of set-up (`CimoptError`: bad input, broken contract) still stop the study, unless
    `input_errors_too`: then a value the model's tables do not hold is that design's reason.
    """

    def __init__(self, inner: Evaluator, *, input_errors_too: bool = False) -> None:
        super().__init__(inner)
        self._input_errors_too = input_errors_too

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        try:
            return self.inner.evaluate(designs, workloads, detail)
        except Exception as error:  # the one place where any failure of a plug-in becomes an outcome
            stops = isinstance(error, CimoptError) and not (self._input_errors_too and isinstance(error, InputError))
            if stops:
                raise
            if len(designs) == 1:
                reason = str(error) if isinstance(error, InputError) else reason_of(error)
                return Metrics.failed([reason], names(workloads))
        half = len(designs) // 2
        parts = (designs.take(slice(None, half)), designs.take(slice(half, None)))
        return Metrics.concat([self.evaluate(part, workloads, detail) for part in parts])


def reason_of(error: BaseException) -> str:
    """One line: the exception's type and text."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Ruled(Wrapper):
    """Designs that the space refuses get that as their reason: other libraries' samplers know no rules."""

    REFUSED = "refused by the space: a rule, or a choice that its parent does not offer"

    def __init__(self, inner: Evaluator, valid: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(inner)
        self.streams = inner.streams
        self._valid = valid

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        kept = self._valid(designs.genes)
        legal, refused = np.flatnonzero(kept), np.flatnonzero(~kept)
        self.inner.on_result = lambda rows, metrics: self.on_result(legal[rows], metrics)
        if not refused.size:
            return self.inner.evaluate(designs, workloads, detail)
        parts = [Metrics.failed([self.REFUSED] * len(refused), names(workloads))]
        self.on_result(refused, parts[0])
        if legal.size:
            parts.append(self.inner.evaluate(designs.take(legal), workloads, detail))
        return Metrics.concat(parts).take(np.argsort(np.concatenate([refused, legal]), kind="stable"))


class Direct(Wrapper):
    """The inner evaluator as it is, telling the whole batch as one result."""

    streams = True

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        metrics = self.inner.evaluate(designs, workloads, detail)
        self.on_result(np.arange(len(designs)), metrics)
        return metrics


class Cached(Wrapper):
    """Keeps results by (design values it reads, workloads, evaluator version and settings).

    With a `folder`, results also live in `<folder>/<name>-<hash>.jsonl`, one line per design, so that
    a slow evaluation is never paid twice; the driver is the only writer. Errors are not kept (a
    crash may have been the machine's), breakdowns are not kept either.
    """

    streams = True

    def __init__(self, inner: Evaluator, folder: Path | None = None) -> None:
        super().__init__(inner)
        self._known: dict[tuple, dict[str, Any]] = {}
        self._folder = folder
        self._loaded: set[Path] = set()
        self.hits = 0

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        if detail != "totals" or not len(designs):
            return self.inner.evaluate(designs, workloads, detail)
        context, path = self._context(workloads)
        rows_of: dict[tuple, list[int]] = {}
        for row, key in enumerate(self._keys(designs, context)):
            rows_of.setdefault(key, []).append(row)
        parts: list[tuple[list[int], Metrics]] = []

        def collect(key: tuple, metrics: Metrics) -> None:
            rows = rows_of[key]
            parts.append((rows, Metrics.concat([metrics] * len(rows))))
            self.on_result(np.array(rows), parts[-1][1])

        for key in [key for key in rows_of if key in self._known]:
            self.hits += len(rows_of[key])
            collect(key, _unpack(self._known[key], names(workloads)))
        self._evaluate_new(designs, workloads, [k for k in rows_of if k not in self._known], rows_of, path, collect)
        order = np.concatenate([rows for rows, _ in parts])
        return Metrics.concat([m for _, m in parts]).take(np.argsort(order, kind="stable"))

    def _evaluate_new(
        self,
        designs: Designs,
        workloads: Workloads,
        new: list[tuple],
        rows_of: Mapping[tuple, list[int]],
        path: Path | None,
        collect: Callable[[tuple, Metrics], None],
    ) -> None:
        """Each unknown key once; kept as soon as it is there when the inner evaluator streams."""
        if not new:
            return

        def arrived(rows: np.ndarray, metrics: Metrics) -> None:
            self._keep(metrics, [new[row] for row in rows], path)
            for i, row in enumerate(rows.tolist()):
                collect(new[row], metrics.take(slice(i, i + 1)))

        streams = isinstance(self.inner, Wrapper) and self.inner.streams
        if streams:
            self.inner.on_result = arrived
        metrics = self.inner.evaluate(designs.take(np.array([rows_of[key][0] for key in new])), workloads)
        if not streams:
            arrived(np.arange(len(new)), metrics)

    def _context(self, workloads: Workloads) -> tuple[str, Path | None]:
        content = [self.name, self.version, self.cache_key(), [w.fingerprint for w in workloads]]
        context = fingerprint(content)
        if self._folder is None:
            return context, None
        path = self._folder / f"{self.name}-{context}.jsonl"
        if path not in self._loaded:
            self._loaded.add(path)
            self._known |= _read(path, context)
        return context, path

    def _keys(self, designs: Designs, context: str) -> list[tuple]:
        columns = [designs[name].tolist() for name in self.requires]
        return [(context, *values) for values in zip(*columns, strict=True)] if columns else [(context,)] * len(designs)

    def _keep(self, metrics: Metrics, keys: list[tuple], path: Path | None) -> None:
        lines = []
        for i, key in enumerate(keys):
            one = metrics.take(slice(i, i + 1))
            if one.outcome(0).state == "error":
                continue
            self._known[key] = _pack(one)
            lines.append(json.dumps([list(key[1:]), self._known[key]]))
        if path is not None and lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                # A leading line break ends a line that an earlier kill tore.
                file.write("\n" + "\n".join(lines) + "\n")


def _pack(one: Metrics) -> dict[str, Any]:
    return {
        "values": {k: v[0].tolist() for k, v in one.values.items()} if one.ok[0] else {},
        "violations": {k: float(v[0]) for k, v in one.violations.items()},
        "reason": one.reasons[one.reason[0]] if one.reason[0] else "",
        "limits": limits_of(one, 0),
    }


def limits_of(metrics: Metrics, i: int) -> dict[str, list[Any]]:
    """What a row's violations came from, [value, limit, unit] each, as JSON can hold it."""
    found = {k: v.take(slice(i, i + 1)) for k, v in metrics.limits.items()}
    return {
        k: [float(v.value[0]), float(v.limit[0]), v.unit]
        for k, v in found.items()
        if np.isfinite(v.value[0]) and np.isfinite(v.limit[0])
    }


def limits_from(listed: Mapping[str, Any]) -> dict[str, Limit]:
    """`limits_of` undone, for one row."""
    return {k: Limit(np.array([value]), np.array([limit]), unit) for k, (value, limit, unit) in listed.items()}


def _unpack(packed: Mapping[str, Any], workloads: tuple[str, ...]) -> Metrics:
    reason = packed["reason"]
    return Metrics(
        values={k: np.array([v], dtype=float) for k, v in packed["values"].items()},
        workloads=workloads,
        reason=np.array([1 if reason else 0], dtype=np.int16),
        reasons=("ok", reason) if reason else ("ok",),
        violations={k: np.array([v]) for k, v in packed["violations"].items()},
        limits=limits_from(packed.get("limits", {})),
    )


def _read(path: Path, context: str) -> dict[tuple, dict[str, Any]]:
    """Known lines; a line torn by a kill is skipped (its design is evaluated again)."""
    known: dict[tuple, dict[str, Any]] = {}
    if not path.exists():
        return known
    for line in path.read_text().splitlines():
        try:
            key, packed = json.loads(line)
        except ValueError:
            continue
        if all(not isinstance(v, float) or math.isfinite(v) for v in key):
            known[(context, *key)] = packed
    return known


class Spread(Wrapper):
    """Splits a batch into chunks of genes and lets a runner evaluate them; results come back in order.

    `runner.map(items)` gets items `(genes, detail)` and yields `(index, (Metrics, seconds))`, or an
    object with a `reason` for a chunk whose worker was lost: its designs are then tried one by one.
    """

    streams = True

    def __init__(self, inner: Evaluator, runner: Any, chunk: int | None = None, *, probe: bool = False) -> None:
        """`probe`: as long as the cost is unknown, single designs go first (for models that take one at a time)."""
        super().__init__(inner)
        self._runner, self._fixed_chunk, self._probe = runner, chunk, probe
        self._cost_s: float | None = None

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        rows = np.arange(len(designs))
        first = self._n_probes(len(rows))
        parts = self._run(designs, [rows[k : k + 1] for k in range(first)], detail, names(workloads)) if first else []
        if first < len(rows):
            parts += self._run(designs, self._split(rows[first:]), detail, names(workloads))
        order = np.concatenate([r for r, _ in parts])
        return Metrics.concat([m for _, m in parts]).take(np.argsort(order, kind="stable"))

    def _n_probes(self, n: int) -> int:
        """A first batch of unknown cost could be hours in a few chunks, with nothing saved on the way."""
        if not self._probe or self._fixed_chunk or self._cost_s is not None:
            return 0
        return min(n, max(2, self._runner.workers))

    def _split(self, rows: np.ndarray) -> list[np.ndarray]:
        size = self._fixed_chunk or self._chunk(len(rows))
        return [rows[s : s + size] for s in range(0, len(rows), size)]

    def _chunk(self, n: int) -> int:
        """Designs per task: at least CHUNK_S of work, never more than an even share."""
        share = -(-n // self._runner.workers)
        if self._cost_s is None:
            return max(1, -(-share // 4))
        return int(min(max(CHUNK_S / max(self._cost_s, 1e-9), 1), share))

    def _run(
        self, designs: Designs, chunks: list[np.ndarray], detail: str, workloads: tuple[str, ...]
    ) -> list[tuple[np.ndarray, Metrics]]:
        done: list[tuple[np.ndarray, Metrics]] = []
        again: list[np.ndarray] = []
        for index, result in self._runner.map([(designs.genes[rows], detail) for rows in chunks]):
            rows = chunks[index]
            if not isinstance(result, tuple):
                if len(rows) > 1:
                    again += [rows[k : k + 1] for k in range(len(rows))]
                    continue
                result = (Metrics.failed([result.reason], workloads), 0.0)
            metrics, seconds = result
            if seconds:  # half old, half new: one odd chunk must not turn the size
                cost = seconds / len(rows)
                self._cost_s = cost if self._cost_s is None else 0.5 * (self._cost_s + cost)
            done.append((rows, metrics))
            self.on_result(rows, metrics)
        return done + (self._run(designs, again, detail, workloads) if again else [])
