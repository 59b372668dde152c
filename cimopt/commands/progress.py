"""Progress of a search or an enumeration: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from cimopt.report.tables import number

LINE_EVERY_S = 10.0


class SearchProgress:
    """Context manager around rich's progress bar."""

    def __init__(self, label: str, unit: str = "designs") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._live = console.is_terminal
        self._bar = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), console=console, disable=not self._live,
        )  # fmt: skip
        self._label, self._unit = label, unit
        self._task: Any = None
        self._last = time.monotonic()
        self._done = self._total = 0

    def __enter__(self) -> SearchProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start(self, total: int, done: int) -> None:
        self._total, self._done = total, done
        self._task = self._bar.add_task(self._label, total=total, completed=done, note="")

    def advance(self, n: int) -> None:
        self._done += n
        self._bar.update(self._task, completed=self._done)

    def generation(self, stats: Any) -> None:
        best = "nothing feasible yet" if stats.best is None else f"best {number(stats.best)}"
        self.note(f"generation {stats.generation}, {best}, {stats.feasible_share:.0%} feasible")

    def note(self, text: str) -> None:
        self._bar.update(self._task, note=text)
        now = time.monotonic()
        if not self._live and now - self._last >= LINE_EVERY_S:
            self._last = now
            sys.stderr.write(f"{self._label}: {self._done}/{self._total} {self._unit}, {text}\n")
