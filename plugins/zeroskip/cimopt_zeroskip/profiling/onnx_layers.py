"""Layers of an ONNX graph that multiply by stored weights: convolutions and linear layers, with their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cimopt.errors import InputError
from cimopt.types import Layer

KINDS = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True)
class WeightedNode:
    """One node: its kind, name, input tensor, weight shape and ONNX attributes."""

    kind: str
    name: str
    tensor: str
    weight_shape: tuple[int, ...]
    attributes: dict[str, Any]


def weighted_nodes(model: Any) -> tuple[list[WeightedNode], list[str]]:
    """Nodes in graph order, and notes on those that are left out (products of two activations)."""
    from onnx import helper

    weights = stored_shapes(model)
    found, left_out = [], []
    for i, node in enumerate(model.graph.node):
        if node.op_type not in KINDS:
            continue
        name = node.name or f"{node.op_type.lower()}{i}"
        if node.input[1] not in weights:
            left_out.append(name)
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        found.append(WeightedNode(node.op_type, name, node.input[0], weights[node.input[1]], attributes))
    return found, left_out


def stored_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of stored values and of whatever is computed from stored values alone, by name."""
    from onnx import shape_inference

    shapes = {i.name: tuple(i.dims) for i in model.graph.initializer}
    inferred = {
        v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
        for v in shape_inference.infer_shapes(model).graph.value_info
    }
    known = set(shapes)
    for node in model.graph.node:
        # Constant nodes have no inputs at all; optional inputs that are left out have an empty name.
        if all(name in known or not name for name in node.input):
            known.update(node.output)
            shapes |= {name: inferred[name] for name in node.output if name in inferred}
    return shapes


def to_layer(node: WeightedNode, value: np.ndarray) -> tuple[Layer, np.ndarray]:
    """The layer's shape from its input as it ran, and that input as maps ``(images, h, w, c)``."""
    return _conv(node, value) if node.kind == "Conv" else _linear(node, value)


def _conv(node: WeightedNode, value: np.ndarray) -> tuple[Layer, np.ndarray]:
    if value.ndim != 4:
        raise InputError(
            f"convolution '{node.name}' has an input of {value.ndim} dimensions; only 2-d convolutions are supported"
        )
    kernel, get = node.weight_shape[2:], node.attributes.get
    stride, dilation = tuple(get("strides", (1, 1))), tuple(get("dilations", (1, 1)))
    padding = _padding(node, value.shape[2:], kernel, stride, dilation)
    out = tuple(
        (value.shape[2 + i] + padding[i] + padding[2 + i] - (kernel[i] - 1) * dilation[i] - 1) // stride[i] + 1
        for i in range(2)
    )
    layer = Layer(
        node.name, "conv", value.shape[1], node.weight_shape[0], tuple(kernel), stride, padding, dilation,
        groups=get("group", 1), out_map=out,
    )  # fmt: skip
    return layer, np.ascontiguousarray(np.moveaxis(value, 1, -1))


def _padding(node: WeightedNode, size, kernel, stride, dilation) -> tuple[int, int, int, int]:
    mode = node.attributes.get("auto_pad", b"NOTSET")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode == "NOTSET":
        return tuple(node.attributes.get("pads", (0, 0, 0, 0)))
    if mode == "VALID":
        return (0, 0, 0, 0)
    total = [
        max(0, (-(-size[i] // stride[i]) - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - size[i])
        for i in range(2)
    ]
    small = [t // 2 for t in total]
    large = [t - s for t, s in zip(total, small, strict=True)]
    begin, end = (small, large) if mode == "SAME_UPPER" else (large, small)
    return (*begin, *end)


def _linear(node: WeightedNode, value: np.ndarray) -> tuple[Layer, np.ndarray]:
    if len(node.weight_shape) != 2:
        raise InputError(f"linear layer '{node.name}' has weights of {len(node.weight_shape)} dimensions, expected 2")
    if node.kind == "Gemm" and node.attributes.get("transA", 0):
        raise InputError(f"linear layer '{node.name}' transposes its input (transA), which is not supported")
    outputs = node.weight_shape[0 if node.attributes.get("transB", 0) else 1]
    positions = int(np.prod(value.shape[1:-1], dtype=np.int64))
    layer = Layer(node.name, "linear", value.shape[-1], outputs, out_map=(positions, 1))
    return layer, value.reshape(len(value), positions, 1, value.shape[-1])
