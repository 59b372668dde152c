"""Builds a workload layer by layer; every output map is derived, none is typed in.

A feature map flows through calls as a tensor flows through a network's forward pass:

    net = Network("tiny", variant="example", source="none", input_shape=(3, 32, 32))
    x = net.conv(net.input, "conv1", 16, kernel=3, stride=2, padding=1)
    x = net.linear(flatten(adaptive_pool(x, 1)), "fc", 10)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from cimopt.types import DEFAULT_BITS, Layer, Value, Workload


@dataclass(frozen=True)
class FeatureMap:
    """Shape of one activation tensor, batch 1."""

    channels: int
    height: int
    width: int


def window_count(size: int, kernel: int, stride: int, padding: int) -> int:
    """Positions of a sliding window along one axis: floor((size + 2 padding - kernel) / stride) + 1."""
    count = (size + 2 * padding - kernel) // stride + 1
    if count < 1:
        raise ValueError(f"a window of {kernel} does not fit into {size} + 2 x {padding}")
    return count


def pool(x: FeatureMap, kernel: int, stride: int, padding: int = 0) -> FeatureMap:
    """Max or average pooling; it has no MACs, only a shape."""
    return FeatureMap(
        x.channels, window_count(x.height, kernel, stride, padding), window_count(x.width, kernel, stride, padding)
    )


def adaptive_pool(x: FeatureMap, size: int) -> FeatureMap:
    """Average pooling to a square of `size`, whatever comes in."""
    return FeatureMap(x.channels, size, size)


def flatten(x: FeatureMap) -> FeatureMap:
    """All values as channels of one position, for a fully connected layer."""
    return FeatureMap(x.channels * x.height * x.width, 1, 1)


class Network:
    """Collects layers in order. `input_shape` is (channels, height, width), or (tokens,) for text.

    Layers get the `weight_bits`, `activation_bits` and `repeats` that hold when they are added.
    """

    def __init__(self, name: str, *, variant: str, source: str, input_shape: tuple[int, ...]) -> None:
        self.name, self.variant, self.source, self.input_shape = name, variant, source, input_shape
        self.weight_bits = self.activation_bits = DEFAULT_BITS
        self.repeats = 1
        self._layers: list[Layer] = []

    def _add(self, **values: object) -> None:
        # A product of two activations holds no weights: its second operand has the bits of activations.
        weight_bits = self.activation_bits if values.get("dynamic") else self.weight_bits
        self._layers.append(
            Layer(weight_bits=weight_bits, activation_bits=self.activation_bits, repeats=self.repeats, **values)
        )

    @property
    def input(self) -> FeatureMap:
        """The image; networks of tokens start from their own `FeatureMap`."""
        return FeatureMap(*self.input_shape)

    def conv(
        self,
        x: FeatureMap,
        name: str,
        out_channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
    ) -> FeatureMap:
        """Square 2-D convolution with the same padding on all sides; returns its output map."""
        height = window_count(x.height, kernel, stride, padding)
        width = window_count(x.width, kernel, stride, padding)
        self._add(
            name=name,
            kind="conv",
            in_channels=x.channels,
            out_channels=out_channels,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            padding=(padding,) * 4,
            groups=groups,
            out_map=(height, width),
        )
        return FeatureMap(out_channels, height, width)

    def linear(self, x: FeatureMap, name: str, out_features: int) -> FeatureMap:
        """Fully connected layer over the channels, the same at every position of `x`."""
        self._add(
            name=name,
            kind="linear",
            in_channels=x.channels,
            out_channels=out_features,
            out_map=(x.height, x.width),
        )
        return FeatureMap(out_features, x.height, x.width)

    def attention(self, x: FeatureMap, name: str, heads: int) -> FeatureMap:
        """The two products of self-attention over all positions of `x`, per head: Q K^T, then scores V.

        Both operands are activations (dynamic). Heads are groups; each product has heads x tokens x tokens x
        (channels / heads) MACs, so that their number grows with the square of the tokens.
        """
        tokens = x.height * x.width
        self._product(f"{name}.qk", x.channels, heads * tokens, heads, tokens)
        self._product(f"{name}.av", heads * tokens, x.channels, heads, tokens)
        return FeatureMap(x.channels, x.height, x.width)

    def _product(self, name: str, in_channels: int, out_channels: int, heads: int, tokens: int) -> None:
        self._add(
            name=name,
            kind="matmul",
            in_channels=in_channels,
            out_channels=out_channels,
            groups=heads,
            out_map=(tokens, 1),
            dynamic=True,
        )

    def block_repeats(self, blocks: int) -> Iterator[int]:
        """Numbers of the blocks to write down of `blocks` in a row, when all but the first are equal: 0 and 1."""
        for block in range(min(blocks, 2)):
            self.repeats = 1 if block == 0 else blocks - 1
            yield block
        self.repeats = 1

    def workload(self, params: Mapping[str, Value] | None = None, *, fold: bool = False) -> Workload:
        """The network; with `fold`, equal layers are listed once (at the first's place) and counted in `repeats`."""
        return Workload(
            name=self.name,
            layers=tuple(_folded(self._layers) if fold else self._layers),
            variant=self.variant,
            source=self.source,
            input_shape=self.input_shape,
            params=dict(params or {}),
        )


_SHAPE = attrgetter(*(f.name for f in fields(Layer) if f.name != "name"))


def _folded(layers: list[Layer]) -> list[Layer]:
    first: dict[tuple, Layer] = {}
    count: dict[tuple, int] = {}
    for layer in layers:
        shape = _SHAPE(layer)
        first.setdefault(shape, layer)
        count[shape] = count.get(shape, 0) + layer.repeats
    return [layer if count[s] == layer.repeats else replace(layer, repeats=count[s]) for s, layer in first.items()]
