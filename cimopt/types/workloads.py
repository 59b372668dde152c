"""Layers and workloads: one conv, linear or matrix product with its shape; a network of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt.types.common import Value, fingerprint

LAYER_KINDS = ("conv", "linear", "matmul")
MAX_BITS_PER_CELL = 8
DEFAULT_BITS, MAX_BITS = 8, 16  # of one weight or activation
# A layer's sizes: name, how many numbers (0: a plain one), lowest and highest.
SIZES = (
    ("in_channels", 0, 1, np.inf), ("out_channels", 0, 1, np.inf), ("kernel", 2, 1, np.inf), ("stride", 2, 1, np.inf),
    ("padding", 4, 0, np.inf), ("dilation", 2, 1, np.inf), ("groups", 0, 1, np.inf), ("out_map", 2, 1, np.inf),
    ("batch", 0, 1, np.inf), ("repeats", 0, 1, np.inf), ("weight_bits", 0, 1, MAX_BITS), ("activation_bits", 0, 1, MAX_BITS),
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """One conv, linear or matrix product with its shape; channels are totals over groups.

    `mean_input` (0..1, of full scale) and `mean_weight_slice` (0..1, for 1..8 bits per cell,
    offset-encoded, of the slice maximum) are activation and weight statistics; None = unknown.
    `dynamic` marks products of two activations: nothing is stationary. `weight_bits` (of the second
    operand) and `activation_bits` (of inputs and outputs) are bits per value.
    """

    name: str
    kind: str
    in_channels: int
    out_channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, left, bottom, right
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    out_map: tuple[int, int] = (1, 1)
    batch: int = 1
    repeats: int = 1
    dynamic: bool = False
    mean_input: float | None = None
    mean_weight_slice: tuple[float, ...] | None = None
    weight_bits: int = DEFAULT_BITS
    activation_bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        if self.kind not in LAYER_KINDS:
            raise unknown_name(f"kind of layer '{self.name}'", self.kind, LAYER_KINDS)
        self._check_sizes()
        for key in ("in_channels", "out_channels"):
            if getattr(self, key) % self.groups:
                raise InputError(
                    f"layer '{self.name}': {key}={getattr(self, key)} is no multiple of groups={self.groups}"
                )
        if self.mean_input is not None and not 0 <= self.mean_input <= 1:
            raise InputError(f"layer '{self.name}': mean_input={self.mean_input} is outside 0..1")
        slices = self.mean_weight_slice
        if slices is not None and (len(slices) != MAX_BITS_PER_CELL or not all(0 <= s <= 1 for s in slices)):
            raise InputError(
                f"layer '{self.name}': mean_weight_slice needs {MAX_BITS_PER_CELL} values in 0..1, got {slices}"
            )

    def _sizes_are_right(self) -> bool:
        """All at once: searches over networks build layers by the million."""
        pairs = (self.kernel, self.stride, self.dilation, self.out_map)
        if {*map(type, (*pairs, self.padding))} != {tuple} or {*map(len, pairs)} != {2} or len(self.padding) != 4:
            return False
        bits = (self.weight_bits, self.activation_bits)
        ones = (self.in_channels, self.out_channels, self.groups, self.batch, self.repeats, *bits, *sum(pairs, ()))
        whole = {*map(type, ones), *map(type, self.padding)} == {int}
        return whole and min(ones) >= 1 and min(self.padding) >= 0 and max(bits) <= MAX_BITS

    def _check_sizes(self) -> None:
        """Names the first size that is wrong."""
        if self._sizes_are_right():
            return
        for key, length, low, high in SIZES:
            value = getattr(self, key)
            parts = value if length else (value,)
            whole = isinstance(parts, tuple) and all(type(v) is int and low <= v <= high for v in parts)
            if not whole or (length and len(parts) != length):
                wanted = f"{length} whole numbers" if length else "a whole number"
                span = f">= {low}" if high == np.inf else f"in {low}..{high}"
                raise InputError(f"layer '{self.name}': {key}={value!r} must be {wanted} {span}")

    @property
    def macs(self) -> int:
        """Multiply-accumulates over all repeats and the batch, bias excluded."""
        return self.weights * self.out_map[0] * self.out_map[1] * self.batch

    @property
    def weights(self) -> int:
        """Weights (or, for `dynamic`, second-operand values) over all repeats, bias excluded."""
        per_group = (self.in_channels // self.groups) * (self.out_channels // self.groups)
        return per_group * self.groups * self.kernel[0] * self.kernel[1] * self.repeats

    @property
    def activations(self) -> int:
        """Output values over all repeats."""
        return self.out_channels * self.out_map[0] * self.out_map[1] * self.batch * self.repeats


@dataclass(frozen=True)
class Workload:
    """One network: ordered layers with repeat counts. `params` are the family's, for a network of a family."""

    name: str
    layers: tuple[Layer, ...]
    variant: str = ""
    source: str = ""
    input_shape: tuple[int, ...] | None = None
    params: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError(f"workload '{self.name}' has no layers")

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    @property
    def weights(self) -> int:
        return sum(layer.weights for layer in self.layers if not layer.dynamic)

    @property
    def activations(self) -> int:
        return sum(layer.activations for layer in self.layers)

    @property
    def n_layers(self) -> int:
        return sum(layer.repeats for layer in self.layers)

    @cached_property
    def fingerprint(self) -> str:
        content = [self.name, [vars(layer) for layer in self.layers]]
        return fingerprint([*content, dict(self.params)] if self.params else content)
