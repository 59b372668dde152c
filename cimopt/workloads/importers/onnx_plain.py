"""Operators of com.microsoft as the plain ONNX operator of the same shapes.

ONNX Runtime writes these into optimised and quantised models, and ONNX has no inference for them.
A rewritten node keeps its name, outputs and the attributes that the plain operator knows.
"""

from __future__ import annotations

from typing import Any

# Operator -> (plain operator, which inputs are its operands).
_SAME = {
    "FusedConv": ("Conv", (0, 1)),
    "FusedGemm": ("Gemm", (0, 1)),
    "QGemm": ("Gemm", (0, 3)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearSoftmax": ("Softmax", (0,)),
}
# The same shape and other values, in whatever types a file mixes.
SCALED = ("QuantizeLinear", "DequantizeLinear")
# Elementwise in their first input; further outputs have the same shape.
_LIKE_FIRST = (
    "Gelu", "FastGelu", "QuickGelu", "BiasGelu", "QLinearSigmoid", "QLinearLeakyRelu", "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "RotaryEmbedding",
)  # fmt: skip


def plain(node: Any) -> Any:
    """The node, rewritten where it is one of com.microsoft that we know."""
    if node.op_type in SCALED and node.domain in ("", "ai.onnx", "com.microsoft"):
        return _rewritten(node, "Identity", [0])
    if node.domain != "com.microsoft":
        return node
    if node.op_type in _LIKE_FIRST:
        return _rewritten(node, "Relu", [0])
    if node.op_type == "QLinearConcat":  # scale and zero point of the output, then three per operand
        return _rewritten(node, "Concat", range(2, len(node.input), 3))
    if node.op_type in _SAME:
        return _rewritten(node, *_SAME[node.op_type])
    return node


def _rewritten(node: Any, operator: str, operands: Any) -> Any:
    import onnx

    known = onnx.defs.get_schema(operator).attributes
    inputs = [node.input[i] for i in operands if i < len(node.input)]
    copy = onnx.NodeProto(op_type=operator, name=node.name, input=inputs, output=node.output[:1])
    copy.attribute.extend(a for a in node.attribute if a.name in known)
    return copy
