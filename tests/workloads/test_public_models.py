"""Models that the `onnx` distribution carries for its own tests: totals counted independently."""

from pathlib import Path

import pytest

from cimopt.errors import InputError
from cimopt.workloads.importers import import_file

# Layers, MACs, weights. Source: counted from the same files by other tools.
LIGHT = {
    "bvlc_alexnet": (8, 654_560_384, 60_954_656),
    "densenet121": (121, 2_834_161_664, 7_894_208),
    "inception_v1": (58, 1_431_556_352, 6_990_272),
    "inception_v2": (70, 2_018_851_840, 11_174_080),
    "resnet50": (54, 4_089_184_256, 25_502_912),
    "shufflenet": (50, 124_664_528, 1_365_464),
    "squeezenet": (26, 349_151_936, 1_231_552),
    "vgg19": (19, 19_632_062_464, 143_652_544),
    "zfnet512": (8, 1_481_727_008, 87_242_528),
}
SINGLE = {
    "Conv1d": 960, "Conv1d_dilated": 720, "Conv1d_groups": 288, "Conv1d_stride": 480, "Conv1d_pad2": 2000,
    "Conv2d_groups": 2304, "Conv2d_depthwise_with_multiplier": 2304, "Conv2d_dilated": 972, "ConvTranspose2d": 4536,
    "Linear": 320, "Linear_no_bias": 320,
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> Path:
    onnx = pytest.importorskip("onnx")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    if not (folder / "light").is_dir():
        pytest.skip("this build of onnx carries no test models")
    return folder


@pytest.mark.parametrize("name", LIGHT)
def test_light_networks(data, name):
    workload = import_file(data / "light" / f"light_{name}.onnx").workload
    assert (workload.n_layers, workload.macs, workload.weights) == LIGHT[name]


@pytest.mark.parametrize("name", SINGLE)
def test_single_layers(data, name):
    assert import_file(data / "pytorch-converted" / f"test_{name}" / "model.onnx").workload.macs == SINGLE[name]


def test_every_other_model_is_read_or_refused_in_one_sentence(data):
    told = []
    for path in sorted(data.glob("*/*/model.onnx")):
        try:
            import_file(path)
        except InputError as error:
            told.append(str(error))
    assert told
    assert not [text for text in told if "\n" in text]
