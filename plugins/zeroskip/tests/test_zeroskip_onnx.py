"""`cimopt profile` on a small network: geometry, codes, and one sentence for whatever cannot be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cimopt_zeroskip.evaluator import ZeroSkipEvaluator
from cimopt_zeroskip.profile import load
from cimopt_zeroskip.profiling.command import main
from cimopt_zeroskip.profiling.quantise import quantise

from cimopt.errors import InputError
from cimopt.testing import space_named
from cimopt.workloads import load as load_workload

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
Image = pytest.importorskip("PIL.Image")

RAW = ["--scale", "1", "--mean", "0", "--std", "1"]


def _model(path: Path, *, channels: int = 3, size: int | None = 16) -> Path:
    """conv 3x3 s2 (SAME_UPPER) - ReLU - depthwise 3x3 - 1x1 - flatten - Gemm; weights of fixed random values."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    rng = np.random.default_rng(0)
    shapes = {"w1": (8, channels, 3, 3), "w2": (8, 1, 3, 3), "w3": (16, 8, 1, 1), "w4": (10, 16 * 36)}
    stored = [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], name="one", strides=[2, 2], auto_pad="SAME_UPPER"),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="two", group=8),
        helper.make_node("Conv", ["c2", "w3"], ["c3"], name="three"),
        helper.make_node("Flatten", ["c3"], ["f"]),
        helper.make_node("Gemm", ["f", "w4"], ["y"], name="four", transB=1),
    ]
    entry = helper.make_tensor_value_info("x", 1, ["n", channels, size, size])
    graph = helper.make_graph(nodes, "g", [entry], [helper.make_tensor_value_info("y", 1, None)], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two 16 x 16 images and one text file."""
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(1)
    for name in ("a.png", "b.png"):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3)).astype(np.uint8)).save(tmp_path / "images" / name)
    (tmp_path / "images" / "notes.txt").write_text("no image")
    return tmp_path


def test_profiles_a_network(folder, capsys):
    out, yaml = folder / "p.npz", folder / "w.yaml"
    model = _model(folder / "net.onnx")
    code = main([str(model), "--images", str(folder / "images"), "--out", str(out), "--workload", str(yaml), *RAW])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert "4 layers, 2 images" in shown.out
    profile = load(out)
    layers = [p.layer for p in profile.layers]
    assert [layer.name for layer in layers] == ["one", "two", "three", "four"]
    assert [layer.groups for layer in layers] == [1, 8, 1, 1]
    assert [layer.out_map for layer in layers] == [(8, 8), (6, 6), (6, 6), (1, 1)]
    assert layers[0].padding == (0, 0, 1, 1)  # SAME_UPPER puts the odd row at the end
    pixels = np.asarray(Image.open(folder / "images" / "a.png"), dtype=float)
    assert np.array_equal(profile.tensors[profile.layers[0].tensor][0], np.rint(pixels / pixels.max() * 255))
    # Inputs of "three" are signed: codes count from the lowest value, whose zero point stands for 0.
    third = profile.layers[2]
    assert third.zero_point > 0
    assert profile.provenance["images"][0].startswith("a.png sha256")
    assert load_workload(yaml).layers == tuple(layers)
    assert load_workload(yaml).macs == sum(layer.macs for layer in layers)


def test_codes_stand_for_the_activations(folder):
    """Codes times step, less the zero point, are the activations within half a step: checked by running onward."""
    import onnxruntime

    out = folder / "p.npz"
    model = _model(folder / "net.onnx")
    assert main([str(model), "--images", str(folder / "images"), "--out", str(out), *RAW]) == 0
    profile = load(out)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    pixels = np.asarray(Image.open(folder / "images" / "b.png"), dtype=np.float32).transpose(2, 0, 1)
    (expected,) = session.run(None, {"x": pixels[None]})
    last = profile.layers[3]
    values = (profile.tensors[last.tensor][1].astype(float).reshape(-1) - last.zero_point) * last.step
    weights = onnx.numpy_helper.to_array(onnx.load(str(model)).graph.initializer[3])
    room = 0.5 * last.step * np.abs(weights).sum(axis=1)
    assert (np.abs(weights @ values - expected[0]) <= room + 1e-3).all()


def test_open_input_size_is_asked_for(folder, capsys):
    model = _model(folder / "net.onnx", size=None)
    assert main([str(model), "--images", str(folder / "images"), "--size", "16", "--out", str(folder / "p.npz")]) == 0
    fixed = _model(folder / "fixed.onnx")
    assert main([str(fixed), "--images", str(folder / "images"), "--size", "20"]) == 2
    assert "the model's input is 16 x 16" in capsys.readouterr().err


def test_one_channel_networks_get_grey_images(folder):
    model = _model(folder / "net.onnx", channels=1)
    assert main([str(model), "--images", str(folder / "images"), "--out", str(folder / "p.npz"), *RAW]) == 0
    assert load(folder / "p.npz").layers[0].layer.in_channels == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["none.onnx", "--images", "images"], "there is no model"),
        (["images/notes.txt", "--images", "images"], "cannot be read as an ONNX model"),
        (["net.onnx", "--images", "empty"], "no such folder"),
        (["net.onnx", "--images", "images", "--bits", "40"], "bits=40"),
        (["net.onnx", "--images", "images", "--percentile", "0"], "percentile=0"),
        (["net.onnx", "--images", "images", "--mean", "1", "2"], "--mean has 2 values"),
    ],
)
def test_bad_input_is_one_sentence(folder, capsys, monkeypatch, arguments, named):
    _model(folder / "net.onnx")
    monkeypatch.chdir(folder)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert named in err
    assert err.count("\n") == 1


def test_quantise_by_largest_value_and_by_percentile():
    values = np.append(np.linspace(0, 1, 1001), 100.0)
    assert quantise(values, 8).values[1000] == 3  # one outlier eats the range
    clipped = quantise(values, 8, 99.9)
    assert clipped.values[1000] >= 254
    assert (clipped.zero_point, clipped.values.max()) == (0, 255)
    assert quantise(np.zeros(3), 8).values.tolist() == [0, 0, 0]
    assert quantise(values, 12).values.dtype == np.uint16
    with pytest.raises(InputError, match="not finite"):
        quantise(np.array([np.nan]), 8)


def test_writes_a_compact_profile(folder):
    model, out = _model(folder / "net.onnx"), folder / "p.npz"
    arguments = [str(model), "--images", str(folder / "images"), "--out", str(out), "--form", "totals", "--rows", "64"]
    assert main(arguments) == 0
    summary = load(out)
    assert (summary.form, summary.spec.xbar_rows, summary.n_images) == ("totals", 64, 2)
    assert [len(n["block_total"]) for n in summary.numbers] == [1, 2, 1, 9]


@pytest.mark.parametrize(("form", "fidelity"), [("activations", "trace"), ("totals", "totals")])
def test_a_network_profiled_at_four_bits_is_evaluated_at_four(folder, form, fidelity):
    """The workload written beside the profile has its bits; the same network at 8 bits is refused, not guessed."""
    model, out, yaml = _model(folder / "net.onnx"), folder / "p.npz", folder / "w.yaml"
    arguments = ["--images", str(folder / "images"), "--out", str(out), "--workload", str(yaml), "--bits", "4", *RAW]
    assert main([str(model), *arguments, "--form", form]) == 0
    net = load_workload(yaml)
    assert {layer.activation_bits for layer in net.layers} == {4}
    chosen = space_named("zeroskip")
    genes = chosen.sample(1, np.random.default_rng(0))
    for name, value in {"xbar_rows": 128, "rows_per_read": 8, "n_pes": 1024}.items():
        at = chosen.names.index(name)
        genes[:, at] = chosen.parameters.parameters[at].choices.index(value)
    evaluator = ZeroSkipEvaluator(profiles={net.name: str(out)}, fidelity=fidelity, include_linear=True)
    assert evaluator.evaluate(chosen.designs(genes), [net]).ok.all()
    wide = replace(net, layers=tuple(replace(layer, activation_bits=8) for layer in net.layers))
    with pytest.raises(InputError, match=r"bits=8.*4 bits|input_bits=4; input_bits=8"):
        evaluator.evaluate(chosen.designs(genes), [wide])
