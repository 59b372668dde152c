"""Public files of other tools, where they lie beside the checkout: all import with the right totals."""

from collections import Counter

import pytest

from cimopt import workloads
from cimopt.errors import InputError
from cimopt.workloads.importers import Options, import_file

# File, options, layers, MACs, weights. Source: counted independently from the same files.
FILES = [
    ("resnet18_timeloop", {}, 21, 1_814_073_344, 11_678_912),
    ("resnet18.onnx", {}, 21, 1_814_073_344, 11_678_912),
    ("mobilenetv2.onnx", {}, 53, 300_774_272, 3_469_760),
    ("alexnet_grouped.onnx", {}, 8, 654_560_384, 60_954_656),
    ("ds_cnn.onnx", {}, 10, 2_656_768, 22_016),
    ("light_squeezenet.onnx", {}, 26, 349_151_936, 1_231_552),
    ("attention_head.onnx", {}, 5, 14_680_064, 98_304),
    ("swiglu_64_128_256.onnx", {}, 3, 6_291_456, 98_304),
    ("scalesim/test_mnk_input.csv", {}, 1, 256 * 128 * 256, 128 * 256),
    ("scalesim/alexnet_full.csv", {"padding": "valid"}, 5, 25_795_112_064, 3_745_824),
    ("scalesim/Resnet50.csv", {"padding": "same"}, 54, 3_857_973_248, 25_502_912),
    ("scalesim/mobilenet.csv", {"padding": "same"}, 27, 567_412_224, 3_185_088),
    ("scalesim/gpt2.csv", {}, 6, 20_686_307_328, 20_201_472),
]


@pytest.mark.parametrize(("name", "options", "layers", "macs", "weights"), FILES, ids=[f[0] for f in FILES])
def test_totals(case_files, name, options, layers, macs, weights):
    workload = import_file(case_files / name, Options(**options)).workload
    assert (workload.n_layers, workload.macs, workload.weights) == (layers, macs, weights)


def multiset(workload):
    return Counter(
        (x.kind, x.in_channels, x.out_channels, x.kernel, x.stride, x.dilation, x.groups, x.out_map, x.batch)
        for x in workload.layers
    )


def test_resnet18_is_the_same_from_yaml_onnx_and_our_zoo(case_files):
    ours = multiset(workloads.load("resnet18"))
    assert multiset(import_file(case_files / "resnet18_timeloop").workload) == ours
    assert multiset(import_file(case_files / "resnet18.onnx").workload) == ours


def test_the_same_from_onnx_and_zoo_with_paddings(case_files):
    from_onnx = import_file(case_files / "resnet18.onnx").workload
    ours = workloads.load("resnet18")
    assert Counter(x.padding for x in from_onnx.layers) == Counter(x.padding for x in ours.layers)


def test_asymmetric_pads_of_a_real_network(case_files):
    first = import_file(case_files / "ds_cnn.onnx").workload.layers[0]
    assert first.padding == (4, 1, 5, 1)
    assert first.out_map == (25, 5)


def test_an_attention_head_has_two_dynamic_products(case_files):
    layers = import_file(case_files / "attention_head.onnx").workload.layers
    assert [x.dynamic for x in layers] == [False, False, False, True, True]


def test_w24_w3_and_w23_in_public_files(case_files):
    folder = case_files / "scalesim"
    alexnet = import_file(folder / "alexnet_full.csv", Options(padding="valid"))
    assert any("207x207" in w for w in alexnet.warnings)
    mobilenet = import_file(folder / "mobilenet.csv", Options(padding="same"))
    assert any("depthwise" in w for w in mobilenet.warnings)
    flagged = import_file(folder / "mobilenet.csv", Options(padding="same", depthwise=True))
    assert sum(x.groups > 1 for x in flagged.workload.layers) == 13
    with pytest.raises(InputError, match="symbol B in column IFMAP Width, line 2"):
        import_file(folder / "LSTM.csv")


def test_w29_the_variant_of_a_well_known_network_is_named(case_files):
    assert "grouped" in import_file(case_files / "alexnet_grouped.onnx").workload.variant
    renamed = import_file(case_files / "mobilenetv2.onnx", Options(name="mobilenet_v2"))
    assert any("totals are those of mobilenetv2" in note for note in renamed.notes)
