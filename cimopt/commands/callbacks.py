"""Hydra callback that remembers where this process's runs went, for the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from cimopt.errors import masked

FOLDERS: list[Path] = []


class RememberFolder(Callback):
    """Called by Hydra in the launching process before a sweep, whose jobs may run in other processes.

    A single run's folder is noted by its job instead: only there are all of its name's parts known.
    """

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        FOLDERS.append(Path(config.hydra.sweep.dir).absolute())

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Hydra keeps the sweep's configuration in its folder, passwords of URLs included."""
        path = Path(config.hydra.sweep.dir) / "multirun.yaml"
        if path.exists() and masked(text := path.read_text()) != text:
            path.write_text(masked(text))
