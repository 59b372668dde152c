"""Products of two activations: one operand is written into arrays for every image.

Images enter one after another and every layer works on another one, so a product has arrays of its own, like
stored weights. Rows of an array are written one after another and all arrays side by side, copies included; only then
the operations start. Each copy receives its operand over the mesh, as it receives its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cimopt_zeroskip.work import LayerWork


@dataclass(frozen=True)
class WriteSpec:
    """How long a row takes. Both constants and their sources are those of cimopt-tiled.

    Attributes:
        rram_write_pulses: pulses until a cell holds its level, mean of the write-verify loop of Wan, Nature 2022,
            Extended Data Fig. 3f.
        rram_pulse_s: write pulse (at 2 V) of the cell behind the RRAM table, CiMLoop's rram_neurosim_default.
    """

    rram_write_pulses: float = 8.52
    rram_pulse_s: float = 50e-9

    def row_cycles(self, memory: str, t_cycle_ns: float) -> float:
        """Array cycles to write one row: all pulses of a row of RRAM, one cycle of SRAM."""
        return self.rram_write_pulses * self.rram_pulse_s / (t_cycle_ns * 1e-9) if memory == "rram" else 1.0

    def pulses(self, memory: str) -> float:
        """Writes of a cell until it holds its value."""
        return self.rram_write_pulses if memory == "rram" else 1.0


@dataclass
class WrittenWork(LayerWork):
    """A layer's work after its blocks are written: ``write`` int64 ``(blocks,)`` cycles, whatever the copies."""

    inner: LayerWork
    write: np.ndarray

    @property
    def mapped(self):
        return self.inner.mapped

    @property
    def block_total(self) -> np.ndarray:
        return self.inner.block_total

    @property
    def sync_total(self) -> float:
        return self.inner.sync_total

    @property
    def ones(self) -> np.ndarray:
        return self.inner.ones

    @property
    def write_cycles(self) -> float:
        return float(self.write.max())

    def layer_cycles(self, copies: int) -> float:
        return self.inner.layer_cycles(copies) + self.write_cycles

    def shared_cycles(self, copies: int) -> float:
        return self.inner.shared_cycles(copies)

    def block_cycles(self, copies: np.ndarray) -> np.ndarray:
        return self.inner.block_cycles(copies) + self.write


def written(works: Sequence[LayerWork], row_cycles: float) -> list[LayerWork]:
    """The works with the time to write their operands, where they have a dynamic one."""
    return [
        WrittenWork(w, np.ceil(w.mapped.block_rows * row_cycles).astype(np.int64)) if w.mapped.layer.dynamic else w
        for w in works
    ]


@dataclass(frozen=True)
class Writes:
    """What is written per image, all copies together."""

    cells: float = 0.0
    rows: float = 0.0
    bits: float = 0.0


def writes_of(work: LayerWork, copies: np.ndarray) -> Writes:
    """Cells and rows of arrays that a layer's copies ``(blocks,)`` write per image, and the operand's bits they need."""
    mapped, layer = work.mapped, work.mapped.layer
    if not layer.dynamic:
        return Writes()
    rows = float(mapped.block_rows @ copies)
    values = rows * (layer.out_channels // layer.groups)
    return Writes(values * mapped.spec.cells_per_weight, rows * mapped.arrays_per_block, values * layer.weight_bits)
