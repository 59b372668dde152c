"""The published layers: what they are, including what is wrong in them on purpose."""

import pytest

from cimopt import workloads
from cimopt.errors import InputError

# Layers, MACs as listed in the public workload files; weights in millions as published with them.
LISTED = {
    "alexnet": (8, 714_188_480, 61.09),
    "resnet18": (21, 1_814_073_344, 11.68),
    "vgg16": (16, 15_470_264_320, 138.34),
    "mobilenet_v3": (64, 216_589_760, 5.45),
    "mobilebert": (409, 2_817_118_560, 20.82),
    "densenet201": (201, 4_291_365_888, 19.78),
    "resnet50": (62, 7_491_643_904, 48.04),  # a pruned variant
    "vision_transformer": (98, 16_855_904_784, 86.91),  # right would be 17,563,828,224: attention lacks an axis
    "gpt2_medium": (145, 90_515_439_616, 355.42),  # right would be 93,705,207,808
}


def test_the_nine_networks_are_there_in_file_order():
    assert workloads.names("published") == tuple(LISTED)


@pytest.mark.parametrize("name", LISTED)
def test_listed_totals(name):
    workload = workloads.load(name, source="published")
    layers, macs, megaweights = LISTED[name]
    assert (workload.n_layers, workload.macs) == (layers, macs)
    assert workload.weights / 1e6 == pytest.approx(megaweights, abs=0.005)
    assert workload.variant == "published"


def test_channels_are_totals_over_groups():
    depthwise = workloads.load("mobilenet_v3", source="published").layers[1]
    assert (depthwise.in_channels, depthwise.out_channels, depthwise.groups) == (16, 16, 16)
    assert depthwise.macs == 16 * 9 * 112 * 112


def test_unknown_name_gets_a_hint():
    with pytest.raises(InputError, match=r"unknown published workload 'gpt2'.*did you mean 'gpt2_medium'"):
        workloads.load("gpt2", source="published")
