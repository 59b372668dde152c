"""ONNX: tiny models with counts worked out by hand. W numbers are those of the public cases' list."""

import numpy as np
import pytest

from cimopt.errors import InputError


def conv(model, data, weight, op="Conv", **attributes):
    return model().input("x", *data).weight("w", *weight).node(op, "x w", "y", "conv", **attributes)


def only(imported):
    (layer,) = imported.workload.layers
    return layer


@pytest.mark.parametrize(
    ("case", "data", "weight", "attributes", "macs", "weights", "out_map"),
    [
        ("W1 grouped", (2, 4, 6, 5), (6, 2, 3, 2), {"group": 2}, 2304, 72, (4, 4)),
        ("W2 depthwise, multiplier 2", (2, 4, 6, 6), (8, 1, 3, 3), {"group": 4}, 2304, 72, (4, 4)),
        ("W4 dilated", (2, 3, 8, 8), (2, 3, 3, 3), {"dilations": [2, 2], "strides": [2, 2], "pads": [1] * 4}, 972, 54, (3, 3)),
        ("W5 1-D", (2, 4, 10), (5, 4, 3), {}, 960, 60, (8, 1)),
        ("W5 1-D dilated", (2, 4, 10), (5, 4, 3), {"dilations": [2]}, 720, 60, (6, 1)),
        ("W5 1-D grouped", (2, 4, 6), (6, 2, 3), {"group": 2}, 288, 36, (4, 1)),
        ("W5 1-D stride", (2, 4, 10), (5, 4, 3), {"strides": [2]}, 480, 60, (4, 1)),
        ("W5 1-D pad 2", (2, 4, 10), (5, 4, 5), {"pads": [2, 2]}, 2000, 100, (10, 1)),
        ("W6 asymmetric", (1, 1, 5, 5), (1, 1, 3, 3), {"pads": [1, 2, 0, 3]}, 288, 9, (4, 8)),
        ("W6 DS-CNN", (1, 1, 49, 10), (64, 1, 10, 4), {"pads": [4, 1, 5, 1], "strides": [2, 2]}, 320_000, 2560, (25, 5)),
        ("W17 sides differ", (1, 3, 8, 16), (4, 3, 3, 1), {}, 36 * 6 * 16, 36, (6, 16)),
        ("same, odd pixel at the end", (1, 1, 6, 6), (1, 1, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, 81, 9, (3, 3)),
        ("valid", (1, 1, 6, 6), (1, 1, 3, 3), {"auto_pad": "VALID"}, 144, 9, (4, 4)),
    ],
)  # fmt: skip
def test_convolutions(model, read_model, case, data, weight, attributes, macs, weights, out_map):
    layer = only(read_model(conv(model, data, weight, **attributes)))
    assert (layer.macs, layer.weights, layer.out_map, layer.batch) == (macs, weights, out_map, data[0]), case
    assert layer.groups == attributes.get("group", 1)


def test_pads_keep_their_sides(model, read_model):
    """ONNX lists begins, then ends: top, left, bottom, right."""
    assert only(read_model(conv(model, (1, 1, 5, 5), (1, 1, 3, 3), pads=[1, 2, 0, 3]))).padding == (1, 2, 0, 3)
    even = {"auto_pad": "SAME_UPPER", "strides": [2, 2]}
    assert only(read_model(conv(model, (1, 1, 6, 6), (1, 1, 3, 3), **even))).padding == (0, 0, 1, 1)
    even["auto_pad"] = "SAME_LOWER"
    assert only(read_model(conv(model, (1, 1, 6, 6), (1, 1, 3, 3), **even))).padding == (1, 1, 0, 0)
    assert only(read_model(conv(model, (1, 1, 7), (1, 1, 3), pads=[2, 1]))).padding == (2, 0, 1, 0)


def test_w9_transposed_convolution_counts_by_its_input(model, read_model):
    built = conv(
        model, (1, 3, 7, 6), (3, 4, 3, 3), "ConvTranspose", strides=[3, 2], pads=[1] * 4, output_padding=[1, 1]
    ).node("Relu", "y", "z")
    layer = only(read_model(built))
    assert layer.macs == 7 * 6 * 3 * 4 * 9 == 4536
    assert layer.weights == 3 * 4 * 9


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_w11_recurrent_layers_run_once_per_step(model, read_model, op, gates, directions):
    def macs(steps):
        built = model().input("x", steps, 1, 64).weight("w", directions, gates * 64, 64)
        built.weight("r", directions, gates * 64, 64)
        direction = "bidirectional" if directions == 2 else "forward"
        imported = read_model(built.node(op, "x w r", "y", "cell", hidden_size=64, direction=direction))
        assert imported.workload.weights == directions * gates * 64 * 128
        return imported.workload.macs

    assert macs(1) == directions * gates * 64 * 128
    assert macs(100) == 100 * macs(1)  # the public slip: one step, whatever the length
    if (op, directions) == ("LSTM", 1):
        assert macs(100) == 3_276_800


def attention(model, length, heads, width=768):
    """Two products of activations: (1, heads, length, width / heads) each."""
    side = width // heads
    built = (
        model().input("q", 1, heads, length, side).input("k", 1, heads, side, length).input("v", 1, heads, length, side)
    )
    return built.node("MatMul", "q k", "s").node("Softmax", "s", "p").node("MatMul", "p v", "y")


def test_w12_attention_products(model, read_model):
    def macs(length, heads):
        workload = read_model(attention(model, length, heads)).workload
        assert all(x.dynamic and x.kind == "matmul" and x.groups == heads for x in workload.layers)
        assert workload.weights == 0
        return workload.macs

    assert macs(512, 12) == 402_653_184
    assert macs(1024, 12) == 4 * macs(512, 12)
    assert macs(512, 1) == macs(512, 4) == macs(512, 12)


def test_the_attention_operator_counts_as_its_two_products(model, read_model):
    built = model(23).input("q", 1, 512, 768).input("k", 1, 512, 768).input("v", 1, 512, 768)
    built.node("Attention", "q k v", "y", "attn", q_num_heads=12, kv_num_heads=12)
    imported = read_model(built)
    assert imported.workload.macs == 402_653_184
    assert [x.name for x in imported.workload.layers] == ["attn.qk", "attn.av"]
    shared = model(23).input("q", 1, 512, 768).input("k", 1, 512, 192).input("v", 1, 512, 192)
    shared.node("Attention", "q k v", "y", "attn", q_num_heads=12, kv_num_heads=3)
    shared = read_model(shared).workload
    assert shared.macs == imported.workload.macs  # every query still meets every key
    assert {x.groups for x in shared.layers} == {3}


def test_packed_attention_of_the_runtime(model, read_model):
    built = model(17, com_microsoft=1).input("x", 2, 10, 32).weight("w", 32, 96).weight("b", 96)
    built.node("Attention", "x w b", "y", "attn", "com.microsoft", num_heads=4)
    built.weight("o", 32, 8).node("MatMul", "y o", "z")
    qkv, qk, av, out = read_model(built).workload.layers
    assert out.macs == 2 * 10 * 32 * 8  # the operator's output shape is known
    assert (qkv.macs, qkv.weights) == (2 * 10 * 32 * 96, 32 * 96)
    assert qk.macs == av.macs == 2 * 10 * 10 * 32


def test_operators_of_the_runtime_are_read_as_their_plain_ones(model, read_model):
    """A network as quantisation and optimisation write it, without declared shapes."""
    built = model(17, com_microsoft=1).input("x", 1, 4, 8, 8, kind="UINT8")
    for name, kind in [("s", "float32"), ("z", "uint8")]:
        built.weight(name, kind=kind)
    built.weight("w", 4, 4, 3, 3, kind="uint8").weight("v", 10, 8, kind="uint8")
    runtime = {"domain": "com.microsoft"}
    built.node("QLinearConv", "x s z w s z s z", "a", pads=[1] * 4)
    built.node("QLinearAdd", "a s z x s z s z", "b", **runtime)
    built.node("QLinearConcat", "s z a s z b s z", "c", **runtime, axis=1)
    built.node("QLinearGlobalAveragePool", "c s z s z", "d", **runtime, channels_last=0)
    built.node("Flatten", "d", "e").node("QGemm", "e s z v s z", "f", **runtime, transB=1)
    built.node("DequantizeLinear", "f s z", "g").node("FastGelu", "g", "h", **runtime)
    built.weight("o", 10, 6).node("FusedMatMul", "h o", "i", **runtime, alpha=2)
    built.weight("p", 5, 24, kind="uint8").node("MatMulNBits", "i p s", "y", **runtime, K=6, N=5, bits=4, block_size=16)
    built.weight("q", 5, 3).node("MatMul", "y q", "end")
    imported = read_model(built)
    assert [x.macs for x in imported.workload.layers] == [4 * 4 * 9 * 64, 80, 60, 30, 15]
    assert [i.operation for i in imported.ignored] == [
        "QLinearAdd", "QLinearConcat", "QLinearGlobalAveragePool", "Flatten", "DequantizeLinear", "FastGelu",
    ]  # fmt: skip


def test_w15_an_open_batch_is_one_and_said(model, read_model):
    built = conv(model, ("N", 3, 8, 8), (4, 3, 3, 3))
    one = read_model(built)
    assert one.workload.macs == 4 * 27 * 36
    assert any("'N'" in note and "batch of 1" in note for note in one.notes)
    four = read_model(built, bind={"N": 4})
    assert four.workload.macs == 4 * one.workload.macs
    assert not four.notes


def test_w15_a_nameless_batch_and_other_open_sides(model, read_model):
    nameless = conv(model, (None, 3, 8, 8), (4, 3, 3, 3))
    assert read_model(nameless).workload.layers[0].batch == 1
    assert read_model(nameless, bind={"x.0": 2}).workload.layers[0].batch == 2
    sides = conv(model, ("N", 3, "height", 8), (4, 3, 3, 3))
    with pytest.raises(InputError, match=r"input 'x': side 2 is open.*--bind height=SIZE"):
        read_model(sides)
    assert read_model(sides, bind={"height": 8}).workload.macs == 4 * 27 * 36
    with pytest.raises(InputError, match=r"unknown dimension in --bind 'heigth'.*did you mean 'height'"):
        read_model(sides, bind={"heigth": 8})


def test_w16_weights_that_are_no_initialisers(model, read_model):
    """Weights from ConstantOfShape, from a Constant, and behind a Transpose: folded, not counted as layers."""
    built = model().input("x", 1, 3, 8, 8).numbers("shape", 4, 3, 3, 3).node("ConstantOfShape", "shape", "w")
    built.node("Conv", "x w", "y")
    imported = read_model(built)
    assert (imported.workload.macs, imported.workload.weights) == (4 * 27 * 36, 108)
    assert not imported.ignored
    linear = model().input("x", 4, 10).weight("w", 8, 10).node("Transpose", "w", "wt", perm=[1, 0])
    layer = only(read_model(linear.node("MatMul", "x wt", "y")))
    assert (layer.macs, layer.weights, layer.kind) == (320, 80, "linear")


def test_w18_sides_of_zero_and_unknown_sides_name_node_and_side(model, read_model):
    with pytest.raises(InputError, match="input 'x': side 2 is 0"):
        read_model(conv(model, (1, 3, 0, 8), (4, 3, 3, 3)))
    unknown = model().input("x", 3, 8).node("NonZero", "x", "z").node("Cast", "z", "f", to=1)
    unknown.weight("w", 5, 2).node("MatMul", "w f", "y", "product")
    with pytest.raises(InputError, match=r"MatMul 'product' \(node 2\): side 1 of 'f' is unknown"):
        read_model(unknown)
    with pytest.raises(InputError, match=r"Conv 'conv'.*does not fit"):
        read_model(conv(model, (1, 3, 2, 2), (4, 3, 3, 3)))


def test_w19_channel_shuffle_and_heads_by_computed_shapes(model, read_model):
    """Reshape with 0 and -1 and a target made by Shape, Gather and Concat, on an open batch."""
    built = model().input("x", "N", 8, 6, 6).numbers("zero", 0).numbers("rest", 2, 4, 6, 6)
    built.node("Shape", "x", "s").node("Gather", "s zero", "n").node("Concat", "n rest", "t", axis=0)
    built.node("Reshape", "x t", "a").node("Transpose", "a", "b", perm=[0, 2, 1, 3, 4]).numbers("back", 0, -1, 6, 6)
    built.node("Reshape", "b back", "c").weight("w", 8, 2, 3, 3).node("Conv", "c w", "y", "conv", group=4)
    imported = read_model(built)
    layer = only(imported)
    assert (layer.in_channels, layer.groups, layer.macs) == (8, 4, 8 * 2 * 9 * 16)
    assert {i.operation: i.count for i in imported.ignored} == {"Reshape": 2, "Transpose": 1}


def test_w20_unknown_operators(model, read_model):
    """Elementwise by name or by declared shapes: ignored; anything else names its node."""
    built = model(17, com_example=1).input("x", 4, 8).weight("w", 8, 16).node("MatMul", "x w", "h")
    built.node("Silu", "h", "g", "act", "com.example").weight("w2", 16, 8).node("MatMul", "g w2", "y")
    imported = read_model(built)
    assert imported.workload.macs == 2 * 4 * 8 * 16
    assert [i.operation for i in imported.ignored] == ["Silu"]
    strange = model(17, com_example=1).input("x", 4, 8).node("Whatever", "x", "h", "odd", "com.example")
    strange.weight("w", 8, 16).node("MatMul", "h w", "y")
    with pytest.raises(InputError, match=r"unsupported operator com.example.Whatever: Whatever 'odd' \(node 0\)"):
        read_model(strange)
    assert read_model(strange.value("h", 4, 8)).ignored[0].operation == "Whatever"


def test_operators_that_are_not_mapped(model, read_model):
    built = model(19).input("x", 1, 3, 8, 8).weight("o", 1, 18, 8, 8).weight("w", 4, 3, 3, 3)
    built.node("DeformConv", "x w o", "y", "deform", pads=[1] * 4).weight("v", 2, 4, 1, 1).node("Conv", "y v", "z")
    with pytest.raises(InputError, match=r"unsupported operator DeformConv: DeformConv 'deform' \(node 0\)"):
        read_model(built)
    allowed = read_model(built, allow_unsupported=True)
    assert allowed.workload.macs == 2 * 4 * 64
    assert "DeformConv (unsupported)" in [i.operation for i in allowed.ignored]
    assert any("deform" in w and "missing" in w for w in allowed.warnings)


def test_w21_quantised_operators(model, read_model):
    scalars = [
        ("xs", "float32"),
        ("xz", "uint8"),
        ("ws", "float32"),
        ("wz", "uint8"),
        ("ys", "float32"),
        ("yz", "uint8"),
    ]

    def quantised(*shape):
        built = model().input("x", *shape, kind="UINT8")
        for name, kind in scalars:
            built.weight(name, kind=kind)
        return built

    built = quantised(1, 1, 5, 5).weight("w", 1, 1, 3, 3, kind="uint8")
    assert only(read_model(built.node("QLinearConv", "x xs xz w ws wz ys yz", "y"))).macs == 81
    built = quantised(4, 8).weight("w", 8, 6, kind="uint8")
    assert only(read_model(built.node("QLinearMatMul", "x xs xz w ws wz ys yz", "y"))).weights == 48
    built = quantised(1, 1, 5, 5).weight("w", 1, 1, 3, 3, kind="uint8")
    assert only(read_model(built.node("ConvInteger", "x w", "y"))).macs == 81
    built = quantised(4, 8).weight("w", 8, 6, kind="uint8")
    assert only(read_model(built.node("MatMulInteger", "x w", "y"))).macs == 192


def test_w21_weights_between_quantise_and_dequantise(model, read_model):
    built = model().input("x", 1, 1, 5, 5).weight("s").weight("z", kind="uint8").weight("w", 1, 1, 3, 3, kind="uint8")
    built.node("QuantizeLinear", "x s z", "q").node("DequantizeLinear", "q s z", "d")
    built.node("DequantizeLinear", "w s z", "v").node("Conv", "d v", "y")
    imported = read_model(built)
    assert (imported.workload.macs, imported.workload.weights) == (81, 9)
    assert [i.operation for i in imported.ignored] == ["QuantizeLinear", "DequantizeLinear"]


def test_products_of_two_kinds(model, read_model):
    """Weights on the right, on the left, transposed, none; leading sides of activations are batch and positions."""
    right = only(read_model(model().input("x", 2, 7, 8).weight("w", 8, 5).node("MatMul", "x w", "y")))
    assert (right.batch, right.out_map, right.in_channels, right.out_channels) == (2, (7, 1), 8, 5)
    left = only(read_model(model().input("x", 8, 7).weight("w", 5, 8).node("MatMul", "w x", "y")))
    assert (left.in_channels, left.out_channels, left.out_map, left.dynamic) == (8, 5, (7, 1), False)
    gemm = only(read_model(model().input("x", 8, 7).weight("w", 5, 8).node("Gemm", "x w", "y", transA=1, transB=1)))
    assert (gemm.in_channels, gemm.out_channels, gemm.out_map) == (8, 5, (7, 1))
    both = only(read_model(model().input("a", 3, 7, 8).input("b", 3, 8, 5).node("MatMul", "a b", "y")))
    assert (both.kind, both.dynamic, both.groups, both.macs) == ("matmul", True, 3, 3 * 7 * 8 * 5)
    shared = only(read_model(model().input("a", 3, 7, 8).input("b", 8, 5).node("MatMul", "a b", "y")))
    assert (shared.groups, shared.out_map, shared.macs) == (1, (21, 1), 3 * 7 * 8 * 5)


def test_a_graph_input_called_like_weights_is_taken_as_such_and_said(model, read_model):
    built = model().input("x", 4, 8).input("wQ", 8, 6).input("k", 8, 6)
    built.node("MatMul", "x wQ", "q").node("MatMul", "x k", "y")
    imported = read_model(built)
    assert [x.dynamic for x in imported.workload.layers] == [False, True]
    assert any("'wQ'" in note for note in imported.notes)
    assert [x.dynamic for x in read_model(built, weights=("k",)).workload.layers] == [False, False]
    with pytest.raises(InputError, match=r"unknown graph input in --weights 'kk'.*did you mean 'k'"):
        read_model(built, weights=("kk",))


def test_kernels_as_graph_inputs_are_weights_and_computed_ones_are_not(model, read_model):
    """Old files list all weights as inputs; a kernel made of activations is no stationary weight."""
    listed = model().input("x", 1, 3, 8, 8).input("k", 4, 3, 3, 3).node("Conv", "x k", "y")
    imported = read_model(listed)
    assert (imported.workload.weights, len(imported.notes)) == (108, 1)
    made = model().input("x", 1, 3, 8, 8).input("k", 4, 3, 3, 3).node("Relu", "k", "r").node("Conv", "x r", "y")
    layer = only(read_model(made))
    assert (layer.dynamic, layer.macs) == (True, 108 * 36)


@pytest.mark.parametrize(
    ("equation", "a", "b", "groups", "macs"),
    [
        ("bhld,bhmd->bhlm", (2, 3, 5, 4), (2, 3, 7, 4), 6, 2 * 3 * 5 * 7 * 4),
        ("ij,jk->ik", (5, 4), (4, 7), 1, 140),
    ],
)
def test_einsum_as_a_product(model, read_model, equation, a, b, groups, macs):
    built = model().input("a", *a).input("b", *b).node("Einsum", "a b", "y", equation=equation)
    layer = only(read_model(built))
    assert (layer.groups, layer.macs, layer.dynamic) == (groups, macs, True)


def test_einsum_that_is_no_product(model, read_model):
    built = model().input("a", 3, 4).input("b", 4).node("Einsum", "a b", "y", "e", equation="ij,j->j")
    with pytest.raises(InputError, match=r"Einsum 'e'.*'i' is summed over one operand alone"):
        read_model(built)


def test_branches_with_a_known_condition_are_taken(model, read_model):
    branch = {}
    for name, width in (("then_branch", 5), ("else_branch", 9)):
        inner = model().weight(f"w{width}", 8, width).node("MatMul", f"x w{width}", f"y{width}")
        branch[name] = inner.proto().graph
    built = model().input("x", 4, 8).numbers("one", 1).node("Cast", "one", "c", to=9)
    assert only(read_model(built.node("If", "c", "z", "choice", **branch))).out_channels == 5
    unknown = model().input("x", 4, 8).input("c", 1, kind="BOOL").node("If", "c", "z", "choice", **branch)
    with pytest.raises(InputError, match=r"unsupported operator If: If 'choice'.*condition depends on the data"):
        read_model(unknown)


def test_contradictions_name_their_node(model, read_model):
    with pytest.raises(InputError, match=r"Conv 'conv'.*4 input channels, but the weight expects 3 x 1"):
        read_model(conv(model, (1, 4, 8, 8), (4, 3, 3, 3)))
    with pytest.raises(InputError, match="Conv 'conv'"):
        read_model(conv(model, (1, 4, 8, 8), (4, 4, 3, 3), strides=[0, 1]))
    with pytest.raises(InputError, match="only 1-D and 2-D"):
        read_model(conv(model, (1, 4, 8, 8, 8), (4, 4, 3, 3, 3)))
    with pytest.raises(InputError, match="comes from nowhere"):
        read_model(model().input("x", 4, 8).weight("w", 8, 5).node("MatMul", "x v", "y"))


def test_files_that_are_no_models(read_text, tmp_path):
    for content in (b"", b"PK\x03\x04", b"not a model", b"\x08\x07"):
        with pytest.raises(InputError, match=r"net\.onnx"):
            read_text("net.onnx", content)


def test_layer_names_are_unique_and_never_empty(model, read_model):
    built = model().input("x", 4, 8).weight("w", 8, 8)
    built.node("MatMul", "x w", "a", "same").node("MatMul", "a w", "b", "same").node("MatMul", "b w", "c")
    assert [x.name for x in read_model(built).workload.layers] == ["same", "same#2", "c"]


def test_external_data_is_refused_outside_the_folder(model, read_model):
    for location in ("../secret", "/etc/passwd", "a/../../b", ""):
        built = conv(model, (1, 3, 8, 8), (4, 3, 3, 3))
        _outside(built.weights[0], location)
        with pytest.raises(InputError, match="outside the model's folder: refused"):
            read_model(built)
    inside = conv(model, (1, 3, 8, 8), (4, 3, 3, 3))
    _outside(inside.weights[0], "net.data")  # not there, and not needed: weights are not read
    assert read_model(inside).workload.weights == 108


def _outside(tensor, location):
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value=location)


def test_small_shapes_in_external_data_are_read(model, read_model, tmp_path):
    (tmp_path / "net.data").write_bytes(np.array([1, 8, 6, 6], np.int64).tobytes())
    built = model().input("x", 1, 288).numbers("s", 0).node("Reshape", "x s", "y").weight("w", 4, 8, 3, 3)
    shape = built.weights[0]
    _outside(shape, "net.data")
    shape.external_data.add(key="length", value="32")
    shape.dims[:] = [4]
    assert only(read_model(built.node("Conv", "y w", "z"))).macs == 4 * 8 * 9 * 16


def test_functions_that_double_each_other_are_refused(model, tmp_path, read_model):
    """Forty functions, each calling the next twice, would be a trillion nodes."""
    built = model(17, local=1).input("x", 4, 8).node("f0", "x", "h", domain="local").weight("w", 8, 5)
    built.node("MatMul", "h w", "y")
    helper = built.helper
    functions = []
    for i in range(40):
        call = f"f{i + 1}" if i < 39 else "Relu"
        domain = "local" if i < 39 else ""
        body = [
            helper.make_node(call, ["a"], ["b"], domain=domain),
            helper.make_node(call, ["b"], ["c"], domain=domain),
        ]
        functions.append(helper.make_function("local", f"f{i}", ["a"], ["c"], body, built.opsets))
    proto = built.proto()
    proto.functions.extend(functions)
    built.proto = lambda: proto
    with pytest.raises(InputError, match="too often to be written out"):
        read_model(built)


def test_attributes_and_types_that_onnx_does_not_know_are_noted(model, read_model):
    built = conv(model, (1, 1, 5, 5), (1, 1, 3, 3), act_size=8)
    built.weights[0].CopyFrom(built.onnx.numpy_helper.from_array(np.zeros((1, 1, 3, 3), np.int8), "w"))
    imported = read_model(built)
    assert imported.workload.macs == 81
    assert any("act_size" in note for note in imported.notes)
