"""How a layer lies on arrays: rows of the im2col matrix in blocks, outputs side by side (section III-A, Fig 5).

A block is up to ``xbar_rows`` rows; ``arrays_per_block`` arrays side by side share its word lines and run in
lock step. Grouped and depthwise layers follow a stated policy:

- ``block_diagonal`` (default): as many groups as fit share an array, each in its own rows and columns; their
  rows are driven together, cells off the diagonal are left empty.
- ``one_group_per_array``: every group has arrays of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt.types import Layer

GROUP_POLICIES = ("block_diagonal", "one_group_per_array")
ROW_ORDERS = ("kkc", "ckk")


@dataclass(frozen=True)
class ArraySpec:
    """One array and how it is read; the defaults are the paper's (section IV).

    Attributes:
        xbar_rows, xbar_cols: cells.
        rows_per_read: rows with a one that a read resolves (paper: 3-bit ADC, 8 comparators).
        cols_per_adc: columns that share a converter and are read in turn.
        weight_bits, bits_per_cell: a weight takes ceil(weight_bits / bits_per_cell) cells side by side.
        input_bits: bit planes. Both widths are those of the layer that lies on the array (`ArraySpec.holding`).
        skip: zero-skipping. Off: every row of an array is read, padding included.
        used_rows_only: without skipping, read only rows that hold weights (a fairer baseline).
        floor: reads that an empty plane takes (paper: 1).
        grouped_policy: see the module text.
        row_order: "kkc" (ky, kx, channel; the paper's) or "ckk".
    """

    xbar_rows: int = 128
    xbar_cols: int = 128
    rows_per_read: int = 8
    cols_per_adc: int = 8
    weight_bits: int = 8
    bits_per_cell: int = 1
    input_bits: int = 8
    skip: bool = True
    used_rows_only: bool = False
    floor: int = 1
    grouped_policy: str = "block_diagonal"
    row_order: str = "kkc"

    def __post_init__(self) -> None:
        for key in ("xbar_rows", "xbar_cols", "rows_per_read", "cols_per_adc", "weight_bits", "bits_per_cell"):
            value = getattr(self, key)
            if not (isinstance(value, int | np.integer) and value >= 1):
                raise InputError(f"{key}={value!r} must be a whole number >= 1")
        if not 1 <= self.input_bits <= 16 or self.floor not in (0, 1):
            raise InputError(f"input_bits={self.input_bits} must be in 1..16 and floor={self.floor} 0 or 1")
        if self.grouped_policy not in GROUP_POLICIES:
            raise unknown_name("grouped_policy", self.grouped_policy, GROUP_POLICIES)
        if self.row_order not in ROW_ORDERS:
            raise unknown_name("row order", self.row_order, ROW_ORDERS)
        if self.cells_per_weight > self.xbar_cols:
            raise InputError(f"a weight takes {self.cells_per_weight} cells, an array has xbar_cols={self.xbar_cols}")

    def holding(self, layer: Layer) -> ArraySpec:
        """This array with the widths of a layer's weights and activations."""
        if (self.weight_bits, self.input_bits) == (layer.weight_bits, layer.activation_bits):
            return self
        return replace(self, weight_bits=layer.weight_bits, input_bits=layer.activation_bits)

    @property
    def cells_per_weight(self) -> int:
        return -(-self.weight_bits // self.bits_per_cell)

    @property
    def converters(self) -> int:
        """Converters of one array."""
        return -(-self.xbar_cols // self.cols_per_adc)

    def dense_cycles(self, rows: int) -> int:
        """Cycles of an operation that reads ``rows`` rows regardless of their inputs."""
        return self.input_bits * self.cols_per_adc * -(-rows // self.rows_per_read)


@dataclass(frozen=True)
class MappedLayer:
    """One layer on arrays.

    Attributes:
        name: the layer's name; repeats of a layer get ``#1``, ``#2``, ... appended.
        layer: its shape (one repeat).
        bounds: int64 ``(blocks + 1,)``, rows at which blocks start and end, in the order of `row_offsets`.
        arrays_per_block: arrays side by side.
        spec: the array it lies on, with the layer's widths.
        groups_per_array: groups that share an array (1: none do, or the layer has no groups).
    """

    name: str
    layer: Layer
    bounds: np.ndarray
    arrays_per_block: int
    spec: ArraySpec
    groups_per_array: int = 1

    @property
    def patches(self) -> int:
        """Operations of each block per image: output positions (R)."""
        return self.layer.out_map[0] * self.layer.out_map[1] * self.layer.batch

    @property
    def blocks(self) -> int:
        return len(self.bounds) - 1

    @property
    def arrays(self) -> int:
        """Arrays of one copy of the whole layer."""
        return self.blocks * self.arrays_per_block

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one image, one repeat."""
        return self.layer.macs // self.layer.repeats

    @property
    def rows(self) -> int:
        """Rows over all blocks."""
        return int(self.bounds[-1])

    @cached_property
    def block_rows(self) -> np.ndarray:
        """Rows that hold weights, int64 ``(blocks,)``."""
        return np.diff(self.bounds)

    @property
    def cell_use(self) -> float:
        """Cells that hold weights over cells of one copy."""
        cells = self.layer.weights // self.layer.repeats * self.spec.cells_per_weight
        return cells / (self.arrays * self.spec.xbar_rows * self.spec.xbar_cols)


def map_layer(layer: Layer, spec: ArraySpec, name: str | None = None) -> MappedLayer:
    """Blocks and arrays of one layer (one repeat of it); of a product of two activations, its second operand."""
    spec = spec.holding(layer)
    rows, outputs, groups = _per_group(layer)
    together = _groups_together(rows, outputs * spec.cells_per_weight, spec) if groups > 1 else 1
    starts = [0]
    for first in range(0, groups, together):
        used = min(together, groups - first) * rows
        base = starts[-1]
        starts += [base + min(end, used) for end in range(spec.xbar_rows, used + spec.xbar_rows, spec.xbar_rows)]
    columns = min(together, groups) * outputs * spec.cells_per_weight
    side = -(-columns // spec.xbar_cols)
    return MappedLayer(name or layer.name, layer, np.array(starts, np.int64), side, spec, min(together, groups))


def _per_group(layer: Layer) -> tuple[int, int, int]:
    """Rows and outputs of one group, and the number of groups."""
    taps = layer.kernel[0] * layer.kernel[1]
    return taps * layer.in_channels // layer.groups, layer.out_channels // layer.groups, layer.groups


def _groups_together(rows: int, columns: int, spec: ArraySpec) -> int:
    """Groups that share one array."""
    if spec.grouped_policy == "one_group_per_array":
        return 1
    return max(1, min(spec.xbar_rows // rows, spec.xbar_cols // columns))


def map_layers(layers: tuple[Layer, ...], spec: ArraySpec) -> list[MappedLayer]:
    """Every layer, repeats written out: each repeat has weights of its own."""
    mapped = []
    for layer in layers:
        one = map_layer(layer, spec)
        mapped.append(one)
        for i in range(1, layer.repeats):
            mapped.append(replace(one, name=f"{layer.name}#{i}"))
    return mapped


def row_taps(layer: Layer, order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every row of the matrix: kernel row, kernel column and input channel, each int64 ``(rows,)``.

    Groups come one after the other; within a group rows run over (ky, kx, c) or (c, ky, kx).
    """
    per_group = layer.in_channels // layer.groups
    shape = (*layer.kernel, per_group) if order == "kkc" else (per_group, *layer.kernel)
    index = np.indices(shape).reshape(3, -1)
    ky, kx, c = index if order == "kkc" else index[[1, 2, 0]]
    group = np.repeat(np.arange(layer.groups), ky.size)
    return np.tile(ky, layer.groups), np.tile(kx, layer.groups), np.tile(c, layer.groups) + group * per_group


def padded(image: np.ndarray, layer: Layer, zero_point: int = 0) -> np.ndarray:
    """The input map ``(h, w, c)`` with its border: ``zero_point`` is the code of the value 0."""
    top, left, bottom, right = layer.padding
    if not any(layer.padding):
        return image
    return np.pad(image, ((top, bottom), (left, right), (0, 0)), constant_values=zero_point)


def patch_bases(layer: Layer, width: int) -> np.ndarray:
    """Where patches start in a flat padded map of ``width`` columns, int64 ``(patches,)``, row by row."""
    oy, ox = np.divmod(np.arange(layer.out_map[0] * layer.out_map[1], dtype=np.int64), layer.out_map[1])
    return (oy * layer.stride[0] * width + ox * layer.stride[1]) * layer.in_channels


def row_offsets(layer: Layer, width: int, order: str) -> np.ndarray:
    """Offset of every row from its patch's first value, int64 ``(rows,)``."""
    ky, kx, c = row_taps(layer, order)
    return (ky * layer.dilation[0] * width + kx * layer.dilation[1]) * layer.in_channels + c


def im2col(image: np.ndarray, layer: Layer, *, order: str = "kkc", zero_point: int = 0) -> np.ndarray:
    """Patches ``(patches, rows)`` of an input map ``(h, w, c)``, rows in array order."""
    full = padded(image, layer, zero_point)
    check_map(full, layer)
    places = patch_bases(layer, full.shape[1])[:, None] + row_offsets(layer, full.shape[1], order)
    return full.reshape(-1)[places]


def check_map(full: np.ndarray, layer: Layer) -> None:
    """Refuse a padded input map that is too small for the layer's output map."""
    for axis, what in ((0, "height"), (1, "width")):
        need = (layer.out_map[axis] - 1) * layer.stride[axis] + (layer.kernel[axis] - 1) * layer.dilation[axis] + 1
        if full.shape[axis] < need:
            raise InputError(
                f"layer '{layer.name}': padded input {what} {full.shape[axis]} is below the {need} it needs"
            )
    if full.shape[2] != layer.in_channels:
        raise InputError(f"layer '{layer.name}': input has {full.shape[2]} channels, the layer {layer.in_channels}")
