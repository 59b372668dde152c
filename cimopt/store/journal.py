"""The journal of a run folder: one writer, many records per write, mended after a kill or a full disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import get_lock_file

LOCK_SUFFIX = ".lock"


class RunJournal(JournalFileBackend):
    """Optuna's journal file for a folder that this process has locked (`FolderLock`)."""

    def __init__(self, path: Path) -> None:
        mend(path)
        # A driver killed while writing leaves Optuna's lock; the folder's lock says that nobody else is here.
        Path(str(path) + LOCK_SUFFIX).unlink(missing_ok=True)
        super().__init__(str(path))
        self._held: list[dict[str, Any]] | None = None
        self._lines: list[str] = []
        self._first_held = 0

    @contextmanager
    def together(self, records_read: int) -> Iterator[None]:
        """Records appended inside are written at the end in one go, with one flush to disk; also when it is cut short.

        `records_read` is how many records the storage has read: all of them, as it alone writes.
        """
        if self._held is not None:  # inside another one, which writes
            yield
            return
        self._held, self._lines, self._first_held = [], [], records_read
        try:
            yield
        finally:
            self._held = None
            if self._lines:
                self._append_known(records_read, self._lines)

    def _append_known(self, first: int, lines: list[str]) -> None:
        """Append and note where each record starts, so that the next read does not start at the file's head."""
        place = os.path.getsize(self._file_path)
        with get_lock_file(self._lock), open(self._file_path, "ab") as file:
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
        for number, line in enumerate(lines, first):
            self._log_number_offset[number] = place
            place += len(line)  # JSON as Optuna writes it is ASCII
        self._log_number_offset[first + len(lines)] = place

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        if self._held is None:
            super().append_logs(logs)
            return
        for record in logs:
            line = json.dumps(record, separators=(",", ":"))
            self._lines.append(line + "\n")
            # As a reader will see it: keys become strings, tuples become lists.
            self._held.append(json.loads(line))

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        if self._held is None:
            yield from super().read_logs(log_number_from)
        else:
            yield from self._held[log_number_from - self._first_held :]


def mend(path: Path) -> None:
    """Cut off a last record that a kill or a full disk has torn; the designs in it are evaluated again."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        end = _end_of_last_line(file, size)
        if end < size:
            file.truncate(end)


def _end_of_last_line(file: Any, size: int, block: int = 1 << 16) -> int:
    stop = size
    while stop > 0:
        start = max(stop - block, 0)
        file.seek(start)
        found = file.read(stop - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        stop = start
    return 0
