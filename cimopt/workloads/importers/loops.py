"""From a loop nest (sizes, and how each operand is indexed) to a `Layer`.

Timeloop problems, ZigZag equations and ONNX Einsum all say the same thing in their own words:
which dimensions index the weights, the inputs and the outputs. The role of a dimension follows
from where it stands, whatever its name:

    weights, inputs, outputs   a group                  (G, or C of a depthwise layer)
    weights, outputs           an output channel        (M, K)
    weights, inputs            an input channel, summed (C)
    inputs, outputs            a position or the batch  (N, P, Q)
    inside a sum  s*p + d*r    p is a position with stride s, r a kernel side with dilation d
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cimopt.errors import InputError
from cimopt.types import Layer


@dataclass(frozen=True)
class Window:
    """One axis of a sliding window: input index = stride x position + dilation x kernel."""

    position: str
    kernel: str
    stride: int = 1
    dilation: int = 1


@dataclass(frozen=True)
class LoopNest:
    """Dimensions of each operand; `windows` in the order height, width.

    `inputs` lists the plain dimensions only: those of windows count as theirs too.
    """

    sizes: Mapping[str, int]
    weights: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    windows: tuple[Window, ...] = ()
    batch: tuple[str, ...] = ()  # positions that are the batch

    def size(self, dims: Sequence[str]) -> int:
        return prod(self.sizes[d] for d in dims)


def layer_of(nest: LoopNest, name: str, spot: str, *, dynamic: bool = False) -> Layer:
    """The layer that does the multiply-accumulates of `nest`; `spot` names it in errors."""
    nest = _without_ones(nest)
    kernels = {w.kernel for w in nest.windows}
    moving = {w.position for w in nest.windows}
    roles = _roles(nest, kernels, moving, spot)
    if len(nest.windows) > 2:
        raise InputError(f"{spot}: {len(nest.windows)} sliding axes; at most 2 (height, width) are supported")
    groups = nest.size(roles["group"])
    out_map = _out_map(nest, roles["position"], moving)
    kernel = _two([nest.sizes[w.kernel] for w in nest.windows])
    stride = _two([w.stride for w in nest.windows])
    return Layer(
        name=name,
        kind=_kind(kernel, out_map, groups, stride, bool(nest.windows), dynamic),
        in_channels=groups * nest.size(roles["reduction"]),
        out_channels=groups * nest.size(roles["output"]),
        kernel=kernel,
        stride=stride,
        dilation=_two([w.dilation for w in nest.windows]),
        groups=groups,
        out_map=out_map,
        batch=nest.size([d for d in roles["position"] if d in nest.batch]),
        dynamic=dynamic,
    )


def _kind(kernel: tuple, out_map: tuple, groups: int, stride: tuple, windowed: bool, dynamic: bool) -> str:
    if dynamic:
        return "matmul"
    # A 1x1 window on one pixel is a fully connected layer, however it was written.
    one_pixel = kernel == out_map == stride == (1, 1) and groups == 1
    return "linear" if one_pixel or not windowed else "conv"


def _without_ones(nest: LoopNest) -> LoopNest:
    """The nest without plain dimensions of size 1, which may stand anywhere and mean nothing."""
    windows = nest.windows
    held = {d for w in windows for d in (w.position, w.kernel)}

    def kept(dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(d for d in dims if nest.sizes[d] > 1 or d in held)

    return LoopNest(nest.sizes, kept(nest.weights), kept(nest.inputs), kept(nest.outputs), windows, nest.batch)


def _roles(nest: LoopNest, kernels: set[str], moving: set[str], spot: str) -> dict[str, list[str]]:
    roles: dict[str, list[str]] = {"group": [], "output": [], "reduction": [], "position": []}
    names = {
        (True, True, True): "group",
        (True, False, True): "output",
        (True, True, False): "reduction",
        (False, True, True): "position",
    }
    inputs = set(nest.inputs) | moving
    for dim in dict.fromkeys((*nest.outputs, *nest.weights, *nest.inputs)):
        if dim in kernels:
            continue
        where = (dim in nest.weights, dim in inputs, dim in nest.outputs)
        if where not in names:
            operands = ", ".join(n for n, there in zip(("weights", "inputs", "outputs"), where, strict=True) if there)
            raise InputError(
                f"{spot}: dimension '{dim}' is in {operands} only, which is no convolution or matrix product"
            )
        roles[names[where]].append(dim)
    _check_windows(nest, roles, spot)
    return roles


def _check_windows(nest: LoopNest, roles: dict[str, list[str]], spot: str) -> None:
    """A window slides over outputs and is summed over weights; anything else is not a convolution."""
    for window in nest.windows:
        held = nest.sizes[window.kernel] > 1
        if held and (window.kernel in nest.outputs or window.kernel not in nest.weights):
            raise InputError(f"{spot}: '{window.kernel}' slides over the inputs but is no side of the weights")
        if nest.sizes[window.position] > 1 and window.position not in roles["position"]:
            raise InputError(f"{spot}: '{window.position}' slides over the inputs but is no side of the outputs")


def _out_map(nest: LoopNest, positions: Sequence[str], moving: set[str]) -> tuple[int, int]:
    """(height, width); positions without a window (tokens) multiply the height."""
    still = nest.size([d for d in positions if d not in moving and d not in nest.batch])
    sides = _two([nest.sizes[w.position] for w in nest.windows])
    return sides[0] * still, sides[1]


def _two(values: Sequence[int]) -> tuple[int, int]:
    """Two sides; a missing one is 1."""
    return (*values, 1, 1)[:2]
