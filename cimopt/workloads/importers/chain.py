"""Does a list of layers hang together? Doubts about dimensions that no earlier layer explains.

Files that list layers without their connections cannot be proved right, but the usual slips show:
a layer that reads more pixels than any earlier layer gives, channels that no sum of earlier outputs
makes, a depthwise layer written as a reduction, an attention product that lost a sequence axis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cimopt.types import Layer

MAX_WARNINGS = 12
_MAX_CHANNELS = 200_000  # beyond, sums of earlier outputs are not worked out


def chain_warnings(layers: Sequence[Layer], extents: Sequence[tuple[int, int]] | None = None) -> list[str]:
    """Warnings in layer order; `extents` are the input sides (height, width) where the file states them."""
    found = [*depthwise_doubts(layers), *_lost_axes(layers), *_extent_doubts(layers, extents), *_channel_doubts(layers)]
    if len(found) > MAX_WARNINGS:
        found = [*found[:MAX_WARNINGS], f"{len(found) - MAX_WARNINGS} more doubts of these kinds are not shown"]
    return found


def depthwise_doubts(layers: Sequence[Layer]) -> list[str]:
    """A filter over all channels followed by a layer that expects as many channels as went in."""
    found = []
    for i, layer in enumerate(layers[:-1]):
        follows = i == 0 or layers[i - 1].out_channels == layer.in_channels
        suspicious = (
            layer.out_channels == 1 and layer.in_channels > 1 and layers[i + 1].in_channels == layer.in_channels
        )
        if follows and suspicious:
            found.append(
                f"layer '{layer.name}' has 1 filter over {layer.in_channels} channels, yet '{layers[i + 1].name}' reads "
                f"{layer.in_channels}: probably depthwise (for SCALE-Sim files: --depthwise)"
            )
    return found


def _lost_axes(layers: Sequence[Layer]) -> list[str]:
    """Products whose channels equal the sequence length while their positions do not: one axis is missing."""
    tokens = Counter(x.out_map[0] * x.out_map[1] for x in layers if x.kernel == (1, 1) and not x.dynamic)
    tokens.pop(1, None)
    if not tokens:
        return []
    length, times = tokens.most_common(1)[0]
    if times < 2:
        return []
    return [
        f"layer '{x.name}' ({x.in_channels} to {x.out_channels} channels at {x.out_map[0] * x.out_map[1]} positions) looks "
        f"like an attention product of {length} tokens that lost one sequence axis: right are "
        f"heads x {length} x {length} x head width MACs, both operands dynamic"
        for x in layers
        if x.kernel == (1, 1)
        and not x.dynamic
        and x.groups == 1
        and length in (x.in_channels, x.out_channels)
        and 1 < x.out_map[0] * x.out_map[1] != length
    ]


def _extent_doubts(layers: Sequence[Layer], extents: Sequence[tuple[int, int]] | None) -> list[str]:
    """Layers that read more rows or columns than any earlier layer gives."""
    found = []
    largest = (0, 0)
    for i, layer in enumerate(layers):
        needs = extents[i] if extents else _least_extent(layer)
        if i and layer.kind == "conv" and any(n > g for n, g in zip(needs, largest, strict=True)):
            found.append(
                f"layer '{layer.name}' reads {needs[0]}x{needs[1]} pixels, but earlier layers give at most "
                f"{largest[0]}x{largest[1]}"
            )
        largest = tuple(max(a, b) for a, b in zip(largest, layer.out_map, strict=True))
    return found


def _least_extent(layer: Layer) -> tuple[int, int]:
    """Input sides if all of the window's overhang were padding."""
    return tuple((out - 1) * step + 1 for out, step in zip(layer.out_map, layer.stride, strict=True))


def _channel_doubts(layers: Sequence[Layer]) -> list[str]:
    """Layers whose input channels are no earlier output, no sum of some (concatenation), no flattened map."""
    found = []
    sums, flat = 1, set()
    for i, layer in enumerate(layers):
        wanted = layer.in_channels
        if i and wanted < _MAX_CHANNELS and not sums >> wanted & 1 and not _flattened(layer, flat):
            found.append(f"layer '{layer.name}' reads {wanted} channels, which earlier layers do not give")
        if max(wanted, layer.out_channels) < _MAX_CHANNELS:
            sums = (sums | 1 << wanted | sums << layer.out_channels) & (1 << _MAX_CHANNELS) - 1
        flat.add(layer.out_channels)
        if i == 0:
            flat.add(wanted)
    return found


def _flattened(layer: Layer, earlier: set[int]) -> bool:
    """Whether one position reads whole maps of an earlier layer, side by side."""
    return (
        layer.out_map == (1, 1) and layer.kernel == (1, 1) and any(layer.in_channels % c == 0 for c in earlier if c > 1)
    )
