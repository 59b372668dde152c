"""The zoo against published totals, against the published layers, and against its generator."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cimopt import workloads

ROOT = Path(__file__).resolve().parents[2]

# Layers, MACs, weights. Source: counted from the public CiMLoop and ZigZag workload files of these networks;
# ResNet-18's per-layer multisets are identical in three tools. AlexNet is torchvision's, not the grouped one.
TOTALS = {
    "resnet18": (21, 1_814_073_344, 11_678_912),
    "vgg16": (16, 15_470_264_320, 138_344_128),
    "alexnet": (8, 714_188_480, 61_090_496),
    "mobilenet_v3": (64, 216_589_760, 5_451_272),
}


def shapes(workload):
    """Multiset of (C, M totals, kernel, stride, groups, output map)."""
    return Counter(
        (x.in_channels, x.out_channels, x.kernel, x.stride, x.groups, x.out_map)
        for x in workload.layers
        for _ in range(x.repeats)
    )


@pytest.mark.parametrize("name", TOTALS)
def test_totals_are_the_published_ones(name):
    workload = workloads.load(name)
    assert (workload.n_layers, workload.macs, workload.weights) == TOTALS[name]


@pytest.mark.parametrize("name", TOTALS)
def test_zoo_and_published_layers_have_equal_shapes_and_strides(name):
    assert shapes(workloads.load(name)) == shapes(workloads.load(name, source="published"))


@pytest.mark.parametrize("name", TOTALS)
def test_statistics_are_those_of_the_published_layers(name):
    zoo, published = workloads.load(name), workloads.load(name, source="published")
    statistics = [
        Counter((x.mean_input, x.mean_weight_slice, x.in_channels, x.kernel) for x in w.layers) for w in (zoo, published)
    ]
    assert statistics[0] == statistics[1]
    assert all(x.mean_input is not None and len(x.mean_weight_slice) == 8 for x in zoo.layers)


def test_every_zoo_file_carries_name_variant_and_source():
    for name in workloads.names():
        workload = workloads.load(name)
        assert workload.name == name
        assert workload.variant and workload.source and workload.input_shape


def test_alexnet_says_which_variant_it_is():
    """714,188,480 MACs (no groups) and 654,560,384 (two-GPU original) are both called AlexNet."""
    alexnet = workloads.load("alexnet")
    assert alexnet.variant == "torchvision"
    assert all(layer.groups == 1 for layer in alexnet.layers)


def test_depthwise_layers_are_groups_not_reductions():
    depthwise = [x for x in workloads.load("mobilenet_v3").layers if x.groups > 1]
    assert len(depthwise) == 15
    for layer in depthwise:
        assert layer.groups == layer.in_channels == layer.out_channels
        assert layer.weights == layer.groups * layer.kernel[0] * layer.kernel[1]


def test_first_convolution_reads_the_whole_image():
    """A stride lost on the way would make the input extent 118 instead of 229 = 224 + padding."""
    conv1 = workloads.load("resnet18").layers[0]
    extent = (conv1.out_map[0] - 1) * conv1.stride[0] + conv1.kernel[0]
    assert extent == 229


def test_committed_files_are_what_the_script_writes():
    script = [sys.executable, str(ROOT / "scripts" / "make_zoo.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
