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
    # The paper's own count of its CIFAR network: 794.49 M MACs.
    "vgg11": (10, 794_492_928, 9_402_048),
    "alexnet": (8, 714_188_480, 61_090_496),
    "mobilenet_v3": (64, 216_589_760, 5_451_272),
    "densenet201": (201, 4_291_365_888, 19_783_872),
    "resnet50": (54, 4_089_184_256, 25_502_912),
    # With right attention; the public layer files list 16,855,904,784 and 90,515,439,616.
    "vision_transformer": (98, 17_563_828_224, 86_292_480),
    "gpt2_medium": (145, 93_705_207_808, 353_453_056),
    # 2,817,118,560 as listed, and 4,946,176 instead of 95,076 attention MACs in each of 24 blocks.
    "mobilebert": (409, 2_817_118_560 + 24 * (4_946_176 - 95_076), 20_250_624),
}
CNNS_AS_PUBLISHED = ("resnet18", "vgg16", "alexnet", "mobilenet_v3", "densenet201")
TRANSFORMERS = ("mobilebert", "vision_transformer", "gpt2_medium")


def shapes(workload):
    """Multiset of (C, M totals, kernel, stride, groups, output map) of the layers that hold weights."""
    return Counter(
        (x.in_channels, x.out_channels, x.kernel, x.stride, x.groups, x.out_map)
        for x in workload.layers
        if not x.dynamic
        for _ in range(x.repeats)
    )


@pytest.mark.parametrize("name", TOTALS)
def test_totals_are_the_published_ones(name):
    workload = workloads.load(name)
    assert (workload.n_layers, workload.macs, workload.weights) == TOTALS[name]


@pytest.mark.parametrize("name", CNNS_AS_PUBLISHED)
def test_zoo_and_published_layers_have_equal_shapes_and_strides(name):
    assert shapes(workloads.load(name)) == shapes(workloads.load(name, source="published"))


@pytest.mark.parametrize("name", CNNS_AS_PUBLISHED)
def test_statistics_are_those_of_the_published_layers(name):
    zoo, published = workloads.load(name), workloads.load(name, source="published")
    statistics = [
        Counter((x.mean_input, x.mean_weight_slice, x.in_channels, x.kernel) for x in w.layers)
        for w in (zoo, published)
    ]
    assert statistics[0] == statistics[1]
    assert all(x.mean_input is not None and len(x.mean_weight_slice) == 8 for x in zoo.layers)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_differ_from_the_published_layers_in_attention_only(name):
    zoo, published = shapes(workloads.load(name)), shapes(workloads.load(name, source="published"))
    products = sum(x.dynamic for x in workloads.load(name).layers)
    assert not zoo - published
    assert (published - zoo).total() == products > 0


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_products_without_a_published_partner_carry_no_statistics(name):
    for layer in workloads.load(name).layers:
        assert (layer.mean_input is None) == (layer.mean_weight_slice is None) == layer.dynamic


def test_the_published_resnet50_is_another_network():
    zoo, published = workloads.load("resnet50"), workloads.load("resnet50", source="published")
    assert shapes(zoo) != shapes(published)
    assert all(x.mean_input is None for x in zoo.layers)


@pytest.mark.parametrize(
    ("name", "heads", "tokens", "width"), [("gpt2_medium", 16, 256, 64), ("vision_transformer", 12, 197, 64)]
)
def test_attention_is_quadratic_in_tokens(name, heads, tokens, width):
    products = [x for x in workloads.load(name).layers if x.dynamic]
    assert {x.macs for x in products} == {heads * tokens * tokens * width}
    assert {x.kind for x in products} == {"matmul"}


def test_every_zoo_file_carries_name_variant_and_source():
    for name in workloads.names():
        workload = workloads.load(name)
        assert workload.name == name
        assert workload.variant
        assert workload.source
        assert workload.input_shape


def test_every_zoo_network_has_published_totals():
    assert set(TOTALS) == set(workloads.names())


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
