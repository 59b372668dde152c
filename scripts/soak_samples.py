"""Good small files of every format, for the soak run to damage."""

from __future__ import annotations

from collections.abc import Iterator

INSTANCE = "{C: 3, M: 64, P: 112, Q: 112, R: 7, S: 7, HStride: 2, WStride: 2}"
TIMELOOP = """\
problem:
  version: 0.4
  shape: &shape
    name: CNN_Layer
    dimensions: [C, M, R, S, N, P, Q]
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - {name: Inputs, projection: '[[[N]], [[C]], [[R], [P, Wstride]], [[S], [Q, Hstride]]]'}
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]]], read_write: true}
  instance: {C: 3, M: 8, P: 10, Q: 20, R: 3, S: 5, Wstride: 2}
"""
INCLUDED = f"{{{{include_text('../base.yaml')}}}}\nproblem:\n  <<<: *base\n  instance: {INSTANCE}\n"
ZIGZAG = """\
- id: 0
  name: conv
  operator_type: Conv
  equation: O[b][g][k][oy][ox]+=W[g][k][c][fy][fx]*I[b][g][c][iy][ix]
  dimension_relations: [ix=2*ox+1*fx, iy=1*oy+3*fy]
  loop_dims: [B, K, G, C, OY, OX, FY, FX]
  loop_sizes: [2, 8, 1, 3, 10, 20, 3, 5]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 8}
  operand_source: {I: 0, W: 0}
- id: 1
  operator_type: Add
  equation: O[b][g]=W[b][g]+I[b][g]
  loop_dims: [B, G]
  loop_sizes: [1, 64]
- id: 2
  operator_type: Gemm
  equation: O[b][l][k]+=W[b][c][k]*I[b][l][c]
  loop_dims: [B, L, K, C]
  loop_sizes: [4, 9, 9, 16]
  operand_source: {I: 0, W: 1}
"""
CONV_CSV = """\
Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 224, 224, 7, 7, 3, 64, 2,
Conv2, 112, 112, 3, 3, 64, 1, 1,

FC, 1, 1, 1, 1, 64, 1000, 1,,,
"""
GEMM_CSV = "Layer,M,N,K,\nQKT,1024,1024,64,\nFF,1024,3072,1600,\n"
OURS = """\
name: tiny
variant: x
totals: {layers: 3}
layers:
  - {name: conv1, kind: conv, in_channels: 3, out_channels: 64, kernel: [7, 7], stride: 2, padding: 3, out_map: [8, 8]}
  - {name: fc, kind: linear, in_channels: 64, out_channels: 10, repeats: 2}
"""


def samples() -> list[tuple[str, bytes]]:
    """(file name, content) of every sample."""
    texts = [
        ("timeloop.yaml", TIMELOOP), ("included.yaml", INCLUDED), ("zigzag.yaml", ZIGZAG), ("conv.csv", CONV_CSV),
        ("gemm.csv", GEMM_CSV), ("ours.yaml", OURS),
    ]  # fmt: skip
    models = [(f"model{i}.onnx", model.SerializeToString()) for i, model in enumerate(_models())]
    return [(name, text.encode()) for name, text in texts] + models


def _models() -> Iterator[object]:
    """Small ONNX models that reach every converter and the folding of shapes."""
    import numpy as np
    from onnx import TensorProto, TypeProto, helper, numpy_helper

    f, i = "float32", "int64"  # whole numbers are given as values, weights as shapes

    def model(nodes, inputs, weights, domains=()):
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs],
            [helper.make_value_info(nodes[-1].output[0], TypeProto())],
            [numpy_helper.from_array(np.zeros(s, k) if k != i else np.array(s, k), n) for n, s, k in weights],
        )
        opsets = [helper.make_opsetid("", 23), *[helper.make_opsetid(d, 1) for d in domains]]
        return helper.make_model(graph, opset_imports=opsets)

    def node(op, inputs, output, **attributes):
        return helper.make_node(op, inputs.split(), [output], name=f"n_{output}", **attributes)

    yield model(
        [
            node("Conv", "x w", "a", pads=[1, 1, 1, 1], strides=[2, 2], group=2),
            node("Relu", "a", "b"),
            node("ConvTranspose", "b t", "c", strides=[2, 2]),
            node("GlobalAveragePool", "c", "d"),
            node("Flatten", "d", "e"),
            node("Gemm", "e v", "y", transB=1),
        ],
        [("x", ("N", 4, 8, 8))],
        [("w", (6, 2, 3, 3), f), ("t", (6, 5, 2, 2), f), ("v", (10, 5), f)],
    )
    yield model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s i", "n"),
            node("Concat", "n r", "t", axis=0),
            node("Reshape", "x t", "q"),
            node("Transpose", "q", "k", perm=[0, 1, 3, 2]),
            node("MatMul", "q k", "p"),
            node("Softmax", "p", "z"),
            node("MatMul", "z q", "y"),
        ],
        [("x", ("N", 6, 32))],
        [("i", (0,), i), ("r", (2, 3, 32), i)],
    )
    yield model(
        [
            node("LSTM", "x w r", "h", hidden_size=8),
            node("Squeeze", "h", "g"),
            node("Einsum", "g g", "y", equation="ij,kj->ik"),
        ],
        [("x", (5, 1, 4))],
        [("w", (1, 32, 4), f), ("r", (1, 32, 8), f)],
    )
    yield model(
        [
            node("Attention", "x x x", "a", q_num_heads=4, kv_num_heads=4),
            node("Silu", "a", "b", domain="com.example"),
            node("MatMul", "b w", "y"),
        ],
        [("x", (1, 6, 32))],
        [("w", (32, 16), f)],
        ["com.example"],
    )
    runtime = {"domain": "com.microsoft"}
    yield model(
        [
            node("QLinearAdd", "x s z x s z s z", "a", **runtime),
            node("QLinearConcat", "s z a s z x s z", "b", **runtime, axis=1),
            node("DequantizeLinear", "b s z", "d"),
            node("FastGelu", "d", "e", **runtime),
            node("FusedMatMul", "e o", "f", **runtime, transB=1),
            node("MatMulNBits", "f p s", "g", **runtime, K=6, N=5, bits=4),
            node("MultiHeadAttention", "g g g", "h", **runtime, num_heads=5),
            node("MatMul", "h q", "y"),
        ],
        [("x", (1, 4, 8))],
        [("s", (), f), ("z", (), "uint8"), ("o", (6, 8), f), ("p", (5, 24), "uint8"), ("q", (5, 3), f)],
        ["com.microsoft"],
    )
