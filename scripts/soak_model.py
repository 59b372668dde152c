"""A slow evaluator for soak runs and benchmarks: the real published model plus a sleep per design.

`install(folder)` makes it a plug-in in a folder for PYTHONPATH: a module and the metadata that names its
entry point, so that drivers and Ray workers find it as they find any installed plug-in.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from cimopt import plugins
from cimopt.evaluators.one_by_one import OneByOneEvaluator

METADATA = "Metadata-Version: 2.1\nName: soak-model\nVersion: 1\n"
ENTRY_POINTS = "[cimopt.evaluators]\nslow_tiled = soak_model:SlowTiled\n"


def install(folder: Path) -> str:
    """Returns the folder, to be put on PYTHONPATH."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, folder / "soak_model.py")
    about = folder / "soak_model-1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(METADATA)
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return str(folder)


LONGEST_HOLD_S = 120.0


class SlowTiled(OneByOneEvaluator):
    """tiled_published with `sleep_s` per design; each call is a line `process genes` in `log`.

    While a file `<log>.hold` exists, nothing goes on once `log` has as many lines as it says: a fault then
    strikes in the middle of a run, however slow or fast the machine is.
    """

    name, version = "slow_tiled", "1"

    def __init__(self, sleep_s: float = 0.02, log: str | None = None) -> None:
        self._inner = plugins.load("cimopt.evaluators", "tiled_published").from_config({})
        self._sleep_s, self._log = sleep_s, log
        self.requires, self.provides = self._inner.requires, self._inner.provides

    @classmethod
    def from_config(cls, settings):
        return cls(**settings)

    def precheck(self, designs, workloads):
        return self._inner.precheck(designs, workloads)

    def evaluate_one(self, design, workload):
        raise NotImplementedError("`evaluate` passes on to the real model")

    def evaluate(self, designs, workloads, detail="totals"):
        for genes in designs.genes.tolist():
            time.sleep(self._sleep_s)
            if self._log:
                with open(self._log, "a") as file:
                    file.write(f"{os.getpid()} {','.join(map(str, genes))}\n")
                _wait_while_held(Path(self._log))
        return self._inner.evaluate(designs, workloads, detail)


def _wait_while_held(log: Path) -> None:
    hold, until = Path(f"{log}.hold"), time.monotonic() + LONGEST_HOLD_S
    while time.monotonic() < until:
        try:
            n = int(hold.read_text())
        except FileNotFoundError:
            return
        if log.read_bytes().count(b"\n") < n:
            return
        time.sleep(0.02)
