"""Workloads as arrays: each distinct layer shape once, and how often each workload has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from cimopt.types import MAX_BITS_PER_CELL, Layer, Workload
from cimopt_tiled.inputs import InputCode
from cimopt_tiled.structure import N_BASIS

# Statistics for layers that carry none: plain means over the 1,024 layers of the nine published networks
# (the workload files behind arXiv 2603.03880), for 1..8 bits per cell, of full scale.
DEFAULT_MEAN_INPUT = 0.477456
DEFAULT_MEAN_WEIGHT_SLICE = (0.503456, 0.502777, 0.400450, 0.501401, 0.299322, 0.254904, 0.245022, 0.486162)


@dataclass(frozen=True)
class Occurrences:
    """The layers of one workload in order, L of them.

    Attributes:
        names: the layers' names.
        shape: int ``(L,)``, row in :class:`LayerSet`.
        repeats: float ``(L,)``.
        basis: float ``(L, 8, 4)``: (1, a, w, a*w) for 1..8 bits per cell, of one repeat.
    """

    names: tuple[str, ...]
    shape: np.ndarray
    repeats: np.ndarray
    basis: np.ndarray


@dataclass(frozen=True)
class Entries:
    """The distinct shapes of every workload, one after another; e of them.

    Attributes:
        starts: int ``(w + 1,)``, where each workload's entries begin.
        shape: int ``(e,)``, row in :class:`LayerSet`.
        repeats: float ``(e,)``.
        basis: float ``(8, e, 4)``: repeats x (1, a, w, a*w) for 1..8 bits per cell.
    """

    starts: np.ndarray
    shape: np.ndarray
    repeats: np.ndarray
    basis: np.ndarray


@dataclass(frozen=True)
class LayerSet:
    """Distinct layer shapes of several workloads; k shapes, w workloads.

    Attributes:
        dims: int ``(k, 9)``: C, M, R, S, P, Q, G, N and a slice column (1, set per structure).
        steps: int ``(k, 4)``: stride h, w, dilation h, w of input footprints.
        widths: int ``(k, 2)``: bits of a weight and of an activation.
        basis: float ``(k, 8, w, 4)``: repeats x (1, a, w, a*w) summed over a workload's layers of that shape.
        dynamic: bool ``(k,)``: products of two activations (only marked on request).
        cells: float ``(8, w)``: cells that the capacity rule counts, for 1..8 bits per cell.
        workloads: the layers of each workload.
        code: how inputs enter the rows.
    """

    dims: np.ndarray
    steps: np.ndarray
    widths: np.ndarray
    basis: np.ndarray
    dynamic: np.ndarray
    cells: np.ndarray
    workloads: tuple[Occurrences, ...]
    code: InputCode

    @cached_property
    def input_factors(self) -> np.ndarray:
        """What the width of the inputs makes of reads and rows, float ``(k, 2, 4)``; 1 for 8 bits."""
        return self.code.factors(self.widths[:, 1])

    @cached_property
    def driven(self) -> np.ndarray:
        """The basis of reads and rows, float ``(k, 8, w, 2, 4)``."""
        return self.basis[:, :, :, None, :] * self.input_factors[:, None, None]

    @cached_property
    def input_steps(self) -> np.ndarray:
        """Steps one after another for one input of each shape, float ``(k,)``."""
        return self.code.steps(self.widths[:, 1]).astype(float)

    @cached_property
    def levels(self) -> np.ndarray:
        """Largest value one row adds to a column's sum, float ``(8, k)`` for 1..8 bits per cell."""
        cell = np.minimum(np.arange(1, MAX_BITS_PER_CELL + 1)[:, None], self.widths[:, 0])
        return (2.0**cell - 1) * self.code.step_levels(self.widths[:, 1])

    @cached_property
    def entries(self) -> Entries:
        """Which shapes each workload has, and how often."""
        repeats = self.basis[:, 0, :, 0].T
        workload, shape = np.nonzero(repeats)
        starts = np.searchsorted(workload, np.arange(len(repeats) + 1))
        return Entries(
            starts, shape, repeats[workload, shape], np.ascontiguousarray(self.basis[shape, :, workload].swapaxes(0, 1))
        )

    @cached_property
    def macs(self) -> np.ndarray:
        """Multiply-accumulates of one inference, float ``(w,)``."""
        return self.dims[:, :8].prod(axis=1).astype(float) @ self.basis[:, 0, :, 0]

    @cached_property
    def activation_bits(self) -> np.ndarray:
        """Bits of all inputs and outputs of each shape, float ``(k,)``."""
        c, m, r, s, p, q, g, n = self.dims[:, :8].T
        high = (p - 1) * self.steps[:, 0] + (r - 1) * self.steps[:, 2] + 1
        wide = (q - 1) * self.steps[:, 1] + (s - 1) * self.steps[:, 3] + 1
        return self.widths[:, 1].astype(float) * g * n * (c * high * wide + m * p * q)

    def needed_cells(self, bits_per_cell: np.ndarray) -> np.ndarray:
        """Cells that hold every weight of each workload, ``(m, w)`` for ``bits_per_cell`` ``(m,)``."""
        return self.cells[np.asarray(bits_per_cell, dtype=np.int64) - 1]


def _shape(layer: Layer, stride_ignored: bool, mark_dynamic: bool) -> tuple[int, ...]:
    """Dimensions of one group, stride, dilation and widths as the model sees them, and whether it is dynamic."""
    step = (1, 1, 1, 1) if stride_ignored else (*layer.stride, *layer.dilation)
    channels = (layer.in_channels // layer.groups, layer.out_channels // layer.groups)
    return (
        *channels,
        *layer.kernel,
        *layer.out_map,
        layer.groups,
        layer.batch,
        *step,
        layer.weight_bits,
        layer.activation_bits,
        int(layer.dynamic and mark_dynamic),
    )


_CELL_BITS = np.arange(1, MAX_BITS_PER_CELL + 1)


@lru_cache(maxsize=4096)  # layers of many networks share their statistics
def _basis(mean_input: float | None, mean_weight_slice: tuple[float, ...] | None, weight_bits: int) -> np.ndarray:
    """(1, a, w, a*w) for 1..8 bits per cell, ``(8, 4)``.

    A weight narrower than its cell keeps its mean share of its own range and leaves the upper levels unused.
    """
    mean_input = DEFAULT_MEAN_INPUT if mean_input is None else mean_input
    w = np.array(DEFAULT_MEAN_WEIGHT_SLICE if mean_weight_slice is None else mean_weight_slice)
    if weight_bits < MAX_BITS_PER_CELL:
        w = w * np.minimum(1.0, (2.0**weight_bits - 1) / (2.0**_CELL_BITS - 1))
    a = np.full(MAX_BITS_PER_CELL, mean_input)
    return np.stack([np.ones(MAX_BITS_PER_CELL), a, w, a * w], axis=1)


def _counted_weights(layer: Layer, groups_ignored: bool) -> int:
    """Weights of a layer in the capacity rule: sum of C*R*S*M, published without the groups."""
    return layer.weights // layer.groups if groups_ignored else layer.weights


def _capacity(workload: Workload, groups_ignored: bool, mark_dynamic: bool) -> np.ndarray:
    """Cells that must be on the chip at once, ``(8,)``: all stored weights, and the largest dynamic operand."""
    rows = [
        (_counted_weights(x, groups_ignored), x.weight_bits, x.repeats, x.dynamic and mark_dynamic)
        for x in workload.layers
    ]
    weights, bits, repeats, dynamic = np.array(rows, np.int64).T
    cells = weights[:, None] * -(-bits[:, None] // _CELL_BITS)
    stored = cells[dynamic == 0].sum(axis=0)
    largest = (cells // repeats[:, None])[dynamic == 1].max(axis=0, initial=0)
    return (stored + largest).astype(float)


def layer_set(
    workloads: Sequence[Workload],
    stride_ignored: bool,
    groups_ignored: bool,
    mark_dynamic: bool = False,
    code: InputCode | None = None,
) -> LayerSet:
    """Collect the distinct shapes of ``workloads``.

    Unless ``mark_dynamic``, a layer marked ``dynamic`` (a product of two activations) is treated like one
    with stored weights, as in the published workload files. ``code``: how inputs enter the rows, 8 bits a step
    unless given.
    """
    rows: dict[tuple[int, ...], int] = {}
    listed = []
    for workload in workloads:
        shape = [rows.setdefault(_shape(layer, stride_ignored, mark_dynamic), len(rows)) for layer in workload.layers]
        listed.append(
            Occurrences(
                names=tuple(layer.name for layer in workload.layers),
                shape=np.array(shape),
                repeats=np.array([float(layer.repeats) for layer in workload.layers]),
                basis=np.stack([_basis(x.mean_input, x.mean_weight_slice, x.weight_bits) for x in workload.layers]),
            )
        )
    table = np.array(list(rows), dtype=np.int64)
    basis = np.zeros((len(rows), MAX_BITS_PER_CELL, len(listed), N_BASIS))
    for w, one in enumerate(listed):
        np.add.at(basis[:, :, w], one.shape, one.repeats[:, None, None] * one.basis)
    return LayerSet(
        dims=np.concatenate([table[:, :8], np.ones((len(table), 1), np.int64)], axis=1),
        steps=np.ascontiguousarray(table[:, 8:12]),
        widths=np.ascontiguousarray(table[:, 12:14]),
        basis=basis,
        dynamic=table[:, 14] > 0,
        cells=np.stack([_capacity(w, groups_ignored, mark_dynamic) for w in workloads], axis=1),
        workloads=tuple(listed),
        code=code or InputCode(),
    )
