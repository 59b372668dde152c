"""Synthetic activations of families, which list equal layers once."""

import numpy as np
from cimopt_zeroskip.synthetic import synthetic_profile

from cimopt import workloads


def test_densities_follow_the_place_in_the_network_not_in_the_list():
    listed = workloads.load("resnet18")
    (folded,) = workloads.load_entries({"net": {"family": "resnet"}})
    of_list = dict(zip(listed.layers, synthetic_profile(_renamed(listed)).densities, strict=True))
    profile = synthetic_profile(folded)
    first = {}
    for layer, shares in of_list.items():  # the first of every shape stands for its repeats
        first.setdefault(_shape(layer), shares)
    for layer, shares in zip(profile.layers, profile.densities, strict=True):
        # Equal layers stand together, so the others move by a few places, 0.009 of density each.
        assert np.allclose(shares, first[_shape(layer)], atol=0.06), layer.name
    assert (profile.densities[0], profile.densities[-1]) == (
        first[_shape(listed.layers[0])],
        first[_shape(listed.layers[-1])],
    )


def test_a_familys_network_takes_no_densities_measured_on_another():
    (folded,) = workloads.load_entries({"resnet18": {"family": "resnet"}})
    measured = synthetic_profile(workloads.load("resnet18")).densities
    assert synthetic_profile(folded).densities[0] != measured[0]
    (other,) = workloads.load_entries({"net": {"family": "resnet"}})
    assert synthetic_profile(folded).densities == synthetic_profile(other).densities


def _renamed(workload):
    from dataclasses import replace

    return replace(workload, name="net")


def _shape(layer):
    return (layer.kind, layer.in_channels, layer.out_channels, layer.kernel, layer.stride, layer.out_map)
