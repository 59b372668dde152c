"""Timeloop, ZigZag and SCALE-Sim files: lists of layers, strict where they are ours to check."""

import os
import time

import pytest

from cimopt import workloads
from cimopt.errors import InputError
from cimopt.workloads.importers import Options, detect, import_file

SHAPE = """\
problem:
  version: 0.4
  shape:
    name: CNN_Layer
    dimensions: [C, M, R, S, N, P, Q]
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    - {name: Wdilation, default: 1}
    - {name: Hdilation, default: 1}
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - name: Inputs
      projection: [[[N]], [[C]], [[R, Wdilation], [P, Wstride]], [[S, Hdilation], [Q, Hstride]]]
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]]], read_write: true}
  instance: INSTANCE
"""
PLAIN = "problem:\n  instance: INSTANCE\n"
INCLUDED = "{{include_text('../problem_base.yaml')}}\nproblem:\n  <<<: *problem_base\n  instance: INSTANCE\n"
CONV1 = "{C: 3, M: 64, P: 112, Q: 112, R: 7, S: 7"


def only(imported):
    (layer,) = imported.workload.layers
    return layer


# --------------------------------------------------------------- Timeloop
@pytest.mark.parametrize("text", [SHAPE, PLAIN])
def test_w14_a_misspelt_stride_must_not_load_quietly(read_text, text):
    """The key that public layer files use; Timeloop keeps a stride of 1 then, and reads 118 pixels, not 229."""
    with pytest.raises(
        InputError, match=r"unknown key in .*00\.yaml, line \d+ \(instance\): 'HStride'; did you mean 'Hstride'"
    ):
        read_text("00.yaml", text.replace("INSTANCE", CONV1 + ", HStride: 2}"))


def test_w14_the_public_family_of_files_is_read_as_it_means_and_said(read_text):
    imported = read_text("00.yaml", INCLUDED.replace("INSTANCE", CONV1 + ", HStride: 2, WStride: 2}"))
    layer = only(imported)
    assert (layer.stride, layer.macs, layer.weights) == ((2, 2), 118_013_952, 9408)
    assert any("HStride" in w and "strides of 1" in w for w in imported.warnings)
    with pytest.raises(InputError, match=r"did you mean 'Hstride'"):
        read_text("01.yaml", INCLUDED.replace("INSTANCE", CONV1 + ", HStride: 2}"))


def test_timeloop_shapes_say_which_axis_a_stride_belongs_to(read_text):
    instance = "{C: 3, M: 8, P: 10, Q: 20, R: 3, S: 5, Wstride: 2, Hstride: 1, Hdilation: 3, N: 4}"
    tied = read_text("a.yaml", SHAPE.replace("INSTANCE", instance))
    layer = only(tied)
    assert (layer.out_map, layer.kernel, layer.stride, layer.dilation) == ((10, 20), (3, 5), (2, 1), (1, 3))
    assert layer.batch == 4
    assert any("P, R to Wstride" in note for note in tied.notes)
    assert only(read_text("b.yaml", PLAIN.replace("INSTANCE", instance))).stride == (1, 2)


def test_timeloop_kinds_of_layers(read_text):
    assert only(read_text("a.yaml", PLAIN.replace("INSTANCE", "{C: 512, M: 1000}"))).kind == "linear"
    depthwise = only(read_text("b.yaml", PLAIN.replace("INSTANCE", "{G: 32, P: 7, Q: 7, R: 3, S: 3}")))
    assert (depthwise.groups, depthwise.in_channels, depthwise.out_channels, depthwise.weights) == (32, 32, 32, 288)
    product = SHAPE.split("    dimensions")[0] + (
        "    dimensions: [B, I, O]\n    data-spaces:\n    - {name: Weights, projection: '[[[I]], [[O]]]'}\n"
        "    - {name: Inputs, projection: [[[B]], [[I]]]}\n    - {name: Outputs, projection: [[[B]], [[O]]], read-write: True}\n"
        "  instance: {B: 6, I: 10, O: 4}\n"
    )
    layer = only(read_text("c.yaml", product))
    assert (layer.kind, layer.in_channels, layer.out_channels, layer.out_map) == ("linear", 10, 4, (6, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("instance: I", "instnce: I", r"line 16 \(problem\).*'instnce'; did you mean 'instance'"),
        ("dimensions:", "dimension:", r"line 5 \(shape\).*did you mean 'dimensions'"),
        ("INSTANCE", "{K: 3}", r"line 16 \(instance\): 'K'"),
        ("INSTANCE", "{C: 0}", "C is 0; a whole number >= 1"),
        ("INSTANCE", "{C: 3.5}", "C is 3.5"),
        ("INSTANCE", "{C: '3'}", "C is '3'"),
        ("INSTANCE", "[3]", "instance must be"),
        ("[[M]], [[R]]", "[[M]], [[RR]]", "unknown name in .*projection of Weights 'RR'"),
        ("name: Weights", "name: Wieghts", "unknown data space.*did you mean 'Weights'"),
        ("default: 1}", "default: 0.5}", "default 0.5; whole numbers only"),
        (
            "[[C]], [[M]], [[R]], [[S]]",
            "[[C]], [[M]], [[S]]",
            "'R' slides over the inputs but is no side of the weights",
        ),
        ("version: 0.4", "version: 0.4\n  version: 0.4", "given twice"),
    ],
)
def test_timeloop_faults_name_file_and_line(read_text, old, new, message):
    assert old in SHAPE
    text = SHAPE.replace(old, new, 1).replace("INSTANCE", "{C: 3, R: 3, P: 4}")
    with pytest.raises(InputError, match=rf"net\.yaml.*{message}|{message}"):
        read_text("net.yaml", text)


def test_a_folder_is_a_network_in_the_order_of_names(tmp_path):
    for i, (c, m) in enumerate([(3, 8), (8, 16), (16, 4)]):
        (tmp_path / f"{i:02}.yaml").write_text(PLAIN.replace("INSTANCE", f"{{C: {c}, M: {m}, P: 4, Q: 4}}"))
    imported = import_file(tmp_path, Options(name="three"))
    assert imported.workload.name == "three"
    assert [x.name for x in imported.workload.layers] == ["layer00", "layer01", "layer02"]
    assert not imported.warnings
    (tmp_path / "01.yaml").unlink()
    assert any("reads 16 channels" in w for w in import_file(tmp_path).warnings)


def test_w13_attention_products_that_lost_a_sequence_axis_are_flagged(tmp_path):
    """GPT-2 as public files have it: 16 heads where 16 x 256 positions belong."""
    shapes = [(1024, 3072, 256), (256, 64, 16), (256, 256, 16), (1024, 1024, 256), (1024, 4096, 256)]
    for i, (c, m, p) in enumerate(shapes):
        (tmp_path / f"{i}.yaml").write_text(PLAIN.replace("INSTANCE", f"{{C: {c}, M: {m}, P: {p}}}"))
    flagged = [w.split("'")[1] for w in import_file(tmp_path).warnings if "lost one sequence axis" in w]
    assert flagged == ["layer1", "layer2"]


# ----------------------------------------------------------------- ZigZag
def zigzag(operator="Conv", **changes):
    keys = {
        "equation": "O[b][g][k][oy][ox]+=W[g][k][c][fy][fx]*I[b][g][c][iy][ix]",
        "dimension_relations": "[ix=2*ox+1*fx, iy=1*oy+3*fy]",
        "loop_dims": "[B, K, G, C, OY, OX, FY, FX]",
        "loop_sizes": "[2, 8, 1, 3, 10, 20, 3, 5]",
        "operand_precision": "{W: 8, I: 8, O: 16, O_final: 8}",
        "operand_source": "{I: 0, W: 0}",
    } | changes
    body = "\n".join(f"  {key}: {value}" for key, value in keys.items() if value is not None)
    return f"- id: 0\n  operator_type: {operator}\n{body}\n"


def test_zigzag_convolution(read_text):
    layer = only(read_text("net.yaml", zigzag()))
    assert (layer.out_map, layer.kernel, layer.stride, layer.dilation) == ((10, 20), (3, 5), (1, 2), (3, 1))
    assert (layer.batch, layer.macs) == (2, 2 * 8 * 3 * 15 * 200)


def test_zigzag_padding_keeps_its_sides(read_text):
    stated = zigzag(pr_loop_dims="[IX, IY]", padding="[[3, 2], [1, 0]]")
    assert only(read_text("net.yaml", stated)).padding == (1, 3, 0, 2)
    for faulty in ("[[3, 2]]", "[[3, 2], [1, -1]]", "[[3, 2], 1]"):
        with pytest.raises(InputError, match=r"layer 0 \(line 1\): padding"):
            read_text("net.yaml", zigzag(pr_loop_dims="[IX, IY]", padding=faulty))


def test_zigzag_groups_products_and_what_has_no_macs(read_text):
    depthwise = only(read_text("a.yaml", zigzag(loop_sizes="[1, 1, 32, 1, 7, 7, 3, 3]")))
    assert (depthwise.groups, depthwise.in_channels, depthwise.out_channels) == (32, 32, 32)
    product = {
        "equation": "O[b][l][k]+=W[b][c][k]*I[b][l][c]", "dimension_relations": "[]", "loop_dims": "[B, L, K, C]",
        "loop_sizes": "[4, 9, 9, 16]", "operand_source": "{I: 3, W: 4}",
    }  # fmt: skip
    layer = only(read_text("b.yaml", zigzag("Gemm", **product)))
    assert (layer.kind, layer.dynamic, layer.groups, layer.macs) == ("matmul", True, 4, 4 * 81 * 16)
    pooled = zigzag() + zigzag("Pooling", equation="O[b][g][oy][ox]+=W[fx][fy]*I[b][g][iy][ix]").replace(
        "id: 0", "id: 1"
    )
    assert [(i.operation, i.count) for i in read_text("c.yaml", pooled).ignored] == [("Pooling", 1)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # W28: an index cannot fall between two pixels.
        ({"dimension_relations": "[ix=0.1*ox+0.1*fx, iy=1*oy+1*fy]"}, r"factor '0\.1'.*must be a whole number"),
        ({"dimension_relations": "[ix=0*ox+1*fx, iy=1*oy+1*fy]"}, "factor of ox is 0"),
        ({"dimension_relations": "[ix=ox*fx, iy=1*oy+1*fy]"}, "not of the form"),
        ({"dimension_relations": "[ix=1*oz+1*fx, iy=1*oy+1*fy]"}, "names no loop dimension"),
        ({"loop_sizes": "[2, 8, 1, 3, 10, 20, 3]"}, "lists of equal length"),
        ({"loop_sizes": "[2, 8, 1, 0, 10, 20, 3, 5]"}, "size of 'c' is 0"),
        ({"loop_sizes": None}, r"layer 0 \(line 1\): missing loop_sizes"),
        ({"equation": "O[k]=W[k]+I[k]"}, "adds its operands"),
        ({"equation": "O[k][z]+=W[k][z]*I[k]"}, "unknown dimension in .*equation: 'z'"),
        ({"strides": "[2, 2]"}, r"unknown key in .*line 9: 'strides'"),
    ],
)
def test_zigzag_faults(read_text, changes, message):
    with pytest.raises(InputError, match=message):
        read_text("net.yaml", zigzag(**changes))


def test_zigzag_operator_unknown(read_text):
    with pytest.raises(InputError, match=r"unknown operator_type.*'Convv'; did you mean 'Conv'"):
        read_text("net.yaml", zigzag("Convv"))


# -------------------------------------------------------------- SCALE-Sim
HEADER = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"


def test_scalesim_convolution_and_padding(read_text):
    text = HEADER + "Conv1, 10, 20, 3, 5, 4, 8, 2,\n"
    same = only(read_text("net.csv", text, padding="same"))
    assert (same.out_map, same.padding) == ((5, 10), (0, 1, 1, 2))
    valid = only(read_text("net.csv", text, padding="valid"))
    assert (valid.out_map, valid.padding) == ((4, 8), (0, 0, 0, 0))
    stated = HEADER.replace("Strides,", "Strides, Padding,") + "Conv1, 10, 20, 3, 5, 4, 8, 2, 1\n"
    assert only(read_text("net.csv", stated, padding="explicit")).out_map == (5, 9)


def test_w27_padding_is_a_required_choice(read_text):
    """ResNet-18 as a file without a padding column: 1.81 G MACs with padding, 1.44 G without."""
    rows = [
        f"{x.name},{x.out_map[0] * x.stride[0]},{x.out_map[1] * x.stride[1]},{x.kernel[0]},{x.kernel[1]},"
        f"{x.in_channels},{x.out_channels},{x.stride[0]}"
        for x in workloads.load("resnet18").layers
    ]
    text = HEADER + "\n".join(rows)
    with pytest.raises(InputError, match="choose --padding same, valid or explicit"):
        read_text("resnet18.csv", text)
    assert read_text("resnet18.csv", text, padding="same").workload.macs == 1_814_073_344
    assert read_text("resnet18.csv", text, padding="valid").workload.macs == 1_438_384_832
    with pytest.raises(InputError, match="needs a column 'Padding'"):
        read_text("resnet18.csv", text, padding="explicit")


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "Conv1, 8, 8, 3, 3, 4, 8, 1,\n",
        HEADER + ",,,,,,,,\n\n  \nConv1,8,8,3,3,4,8,1,,,\n,,\n",
        "\ufeff" + (HEADER + "Conv1,8,8,3,3,4,8,1").replace("\n", "\r\n"),
        "Layer,IFMAP_Height,IFMAP-Width,FILTER HEIGHT,Filter  Width,channels,Num Filters,Stride\nConv1,8,8,3,3,4,8,1\n",
        HEADER.replace("Strides,", "Strides,,,Eh,Ew") + 'Conv1, 8, 8, 3, 3, "4", 8.0, 1,,,6,6\n',
    ],
)
def test_scalesim_dirty_files(read_text, text):
    layer = only(read_text("net.csv", text, padding="valid"))
    assert (layer.name, layer.macs) == ("Conv1", 8 * 4 * 9 * 36)


def test_scalesim_columns_that_are_not_read_are_said(read_text):
    text = HEADER.replace("Strides,", "Strides,,,Eh,Ew") + "Conv1, 8, 8, 3, 3, 4, 8, 1,,,6,6\n"
    assert read_text("net.csv", text, padding="valid").notes == ("columns not read: Eh, Ew",)


def test_scalesim_products(read_text):
    layer = only(read_text("net.csv", "Layer Name, M, N, K,\nTest 1, 256, 128, 64,\n"))
    assert (layer.kind, layer.in_channels, layer.out_channels, layer.out_map) == ("linear", 64, 128, (256, 1))
    named = read_text("gpt.csv", "Layer,M,N,K,\nQKT,64,64,16\nFF,64,128,16\n")
    assert any("QKT" in w and "--dynamic QKT" in w for w in named.warnings)
    moving = read_text("gpt.csv", "Layer,M,N,K,\nQKT,64,64,16\nFF,64,128,16\n", dynamic=("QKT",))
    assert [x.dynamic for x in moving.workload.layers] == [True, False]
    assert moving.workload.weights == 128 * 16


def test_w23_symbols_name_column_and_line_or_are_bound(read_text):
    text = HEADER + "gate, 1, B, 1, 1, H, H, 1,\n"
    with pytest.raises(InputError, match="symbol B in column IFMAP Width, line 2"):
        read_text("lstm.csv", text)
    layer = only(read_text("lstm.csv", text, padding="same", bind={"B": 4, "H": 16}))
    assert layer.macs == 4 * 16 * 16


def test_w3_a_depthwise_layer_written_as_one_filter(read_text):
    text = HEADER + "a, 16, 16, 3, 3, 3, 32, 1\nb, 16, 16, 3, 3, 32, 1, 1\nc, 16, 16, 1, 1, 32, 64, 1\n"
    imported = read_text("mobile.csv", text, padding="same")
    assert any("'b' has 1 filter over 32 channels" in w and "--depthwise" in w for w in imported.warnings)
    assert imported.workload.layers[1].out_channels == 1
    flagged = read_text("mobile.csv", text, padding="same", depthwise=True)
    layer = flagged.workload.layers[1]
    assert (layer.groups, layer.in_channels, layer.out_channels) == (32, 32, 32)
    assert (layer.macs, layer.weights) == (imported.workload.layers[1].macs, imported.workload.layers[1].weights)
    assert not flagged.warnings


def test_w24_dimensions_that_no_earlier_layer_gives(read_text):
    alexnet = HEADER + "Conv1, 224, 224, 11, 11, 3, 96, 4\nConv2, 207, 207, 5, 5, 96, 256, 1\n"
    warnings = read_text("net.csv", alexnet, padding="valid").warnings
    assert any("'Conv2' reads 207x207 pixels" in w and "54x54" in w for w in warnings)
    yolo = HEADER + "Conv1, 32, 32, 3, 3, 3, 4, 1\nConv2, 32, 32, 3, 3, 16, 8, 1\n"
    assert any("'Conv2' reads 16 channels" in w for w in read_text("net.csv", yolo, padding="same").warnings)


def test_concatenation_and_flattening_are_no_reason_to_warn(read_text):
    text = (
        HEADER
        + "a, 8, 8, 3, 3, 3, 16, 1\nb, 8, 8, 3, 3, 16, 32, 1\nc, 4, 4, 3, 3, 48, 10, 1\nd, 1, 1, 1, 1, 160, 10, 1\n"
    )
    assert read_text("net.csv", text, padding="same").warnings == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEADER.replace("Num Filter", "Num Fitler") + "a,8,8,3,3,4,8,1",
            "unknown column in .*did you mean 'Num Filter'",
        ),
        (HEADER + "a,8,8,3,3,4,8,0", "column Strides, line 2.*'0' must be"),
        (HEADER + "a,8,8,3,3,4,-8,1", "column Num Filter, line 2"),
        (HEADER + "a,8,8,3,3,4,8.5,1", "column Num Filter, line 2"),
        (HEADER + "a,8,8,3,3,4", "line 2: 6 cells"),
        (HEADER + "a,2,2,3,3,4,8,1", "a 3x3 filter does not fit into 2x2"),
        (HEADER, "a header and no layer"),
        ("", "the file is empty"),
        ("Layer,M,N,K,M\na,1,2,3,4", "two columns are named 'm'"),
        (HEADER + "a,8,8,3,3,4,99999999999999,1", "column Num Filter"),
        ("a, b, c, d, Layer, M, N, K,\nQKT, 8, 8, 4,\n", "column M, line 2 of"),
    ],
)
def test_scalesim_faults(read_text, text, message):
    with pytest.raises(InputError, match=message):
        read_text("net.csv", text, padding="valid")


# ------------------------------------------------------- formats and safety
def test_formats_are_told_by_suffix_and_content(tmp_path):
    for name, text, kind in (
        ("a.yaml", PLAIN, "timeloop"),
        ("b.yml", zigzag(), "zigzag"),
        ("c.csv", HEADER, "scalesim"),
    ):
        (tmp_path / name).write_text(text)
        assert detect(tmp_path / name) == kind
    for name, message in (("d.txt", "not known by its suffix"), ("e.yaml", "neither a Timeloop problem nor")):
        (tmp_path / name).write_text("a: 1")
        with pytest.raises(InputError, match=message):
            detect(tmp_path / name)


def test_options_that_mean_nothing_for_a_format_are_refused(read_text):
    with pytest.raises(InputError, match="--padding has no meaning for timeloop files"):
        read_text("net.yaml", PLAIN, padding="same")
    with pytest.raises(InputError, match=r"unknown layer in --dynamic 'lyer'"):
        read_text("net.yaml", PLAIN.replace("INSTANCE", "{C: 3}"), dynamic=("lyer",))
    for faulty in ({"format": "onx"}, {"padding": "sme"}):
        with pytest.raises(InputError, match="did you mean"):
            Options(**faulty)


def test_saved_pytorch_files_are_refused(read_text):
    for name in ("net.pt", "net.pth", "net.pt2"):
        with pytest.raises(InputError, match="saved PyTorch files are not opened"):
            read_text(name, b"\x80\x04")


@pytest.mark.parametrize("suffix", [".yaml", ".csv", ".onnx"])
def test_pipes_and_devices_are_not_read(tmp_path, suffix):
    """They may never end."""
    os.mkfifo(tmp_path / f"net{suffix}")
    with pytest.raises(InputError, match="no regular file"):
        import_file(tmp_path / f"net{suffix}")


HOSTILE = {
    "aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    ) + "problem: *j\n",
    "itself": "problem: &a {instance: *a}\n",
    "brackets": "problem: " + "[" * 100_000,
    "dashes": "- " * 100_000 + "a",
    "python": "problem: !!python/object/apply:os.getcwd []\n",
    "long text": "x: &x '" + "a" * 1_000_000 + "'\nproblem: [" + ", ".join(["*x"] * 100_000) + "]\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_yaml_is_refused_at_once(read_text, kind):
    start = time.perf_counter()
    with pytest.raises(InputError, match=r"net\.yaml"):
        read_text("net.yaml", HOSTILE[kind])
    assert time.perf_counter() - start < 3
