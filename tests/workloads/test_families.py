"""Families of networks against published totals and the zoo; parameters that a search may choose."""

import itertools
import json
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt import workloads
from cimopt.errors import InputError
from cimopt.types import Designs, ParameterSet
from cimopt.workloads.families import FAMILIES
from cimopt.workloads.files import read_any
from cimopt.workloads.importers import Options
from cimopt.workloads.knobs import BITS


def network(family, **params):
    (found,) = workloads.load_entries({"net": {"family": family, "params": params}})
    return found


def shapes(workload):
    """Layers as a multiset, names and statistics left out."""
    counted = Counter()
    for layer in workload.layers:
        kind = "conv" if layer.kind == "conv" else "product"
        plain = replace(layer, name="x", kind="conv", repeats=1, mean_input=None, mean_weight_slice=None)
        counted[kind, plain] += layer.repeats
    return counted


# ------------------------------------------------------------------ right networks
@pytest.mark.parametrize(
    ("zoo", "family", "params"),
    [
        ("resnet18", "resnet", {}),
        ("resnet50", "resnet", {"block": "bottleneck", "depth_1": 3, "depth_2": 4, "depth_3": 6, "depth_4": 3}),
        ("vision_transformer", "vit", {}),
    ],
)
def test_defaults_are_the_zoos_networks(zoo, family, params):
    theirs, ours = workloads.load(zoo), network(family, **params)
    assert shapes(ours) == shapes(theirs)
    assert (ours.macs, ours.weights, ours.n_layers) == (theirs.macs, theirs.weights, theirs.n_layers)
    assert len(ours.layers) < len(theirs.layers), "equal layers are listed once"


def test_mobilenet_v2_is_the_public_onnx_file(reference):
    file = read_any(str(reference.parent / "cases" / "files" / "mobilenetv2.onnx"), Options()).workload
    assert shapes(network("mobilenet_v2")) == shapes(file)


# Million multiply-adds by width multiplier and resolution: the table of pre-trained MobileNetV2 models in
# TensorFlow's public model repository (research/slim, nets/mobilenet), quoted from memory.
MOBILENET_V2 = {
    (1.4, 224): 582, (1.3, 224): 509, (1.0, 224): 300, (1.0, 192): 221, (1.0, 160): 154, (1.0, 128): 99, (1.0, 96): 56,
    (0.75, 224): 209, (0.5, 224): 97, (0.35, 224): 59,
}  # fmt: skip


@pytest.mark.parametrize(("width", "resolution"), MOBILENET_V2)
def test_mobilenet_v2_has_the_published_products(width, resolution):
    macs = network("mobilenet_v2", width=width, resolution=resolution).macs
    assert macs / 1e6 == pytest.approx(MOBILENET_V2[width, resolution], abs=1)


@pytest.mark.parametrize(
    ("params", "giga_macs"),
    [
        ({"depth_1": 3, "depth_2": 4, "depth_3": 6, "depth_4": 3}, 3.664),
        ({"block": "bottleneck", "depth_1": 3, "depth_2": 4, "depth_3": 23, "depth_4": 3}, 7.801),
        ({"block": "bottleneck", "depth_1": 3, "depth_2": 8, "depth_3": 36, "depth_4": 3}, 11.514),
    ],
)
def test_deeper_resnets_have_torchvisions_products(params, giga_macs):
    """torchvision's tables state 3.66, 7.8 and 11.51 GFLOPS (of multiply-adds) for ResNet-34, -101 and -152."""
    assert network("resnet", **params).macs / 1e9 == pytest.approx(giga_macs, abs=0.005)


# ------------------------------------------------------------------------ laws
SIZES = {
    "mobilenet_v2": ["width", "resolution", "depth_3", "expand_4", "kernel_5"],
    "resnet": ["width", "resolution", "depth_2", "kernel_3"],
    "vit": ["depth", "mlp_ratio"],
}
GROWING = {
    "width": (0.5, 1.0, 1.5), "resolution": (128, 192, 224), "depth": (6, 12, 24), "depth_2": (1, 2, 5), "depth_3": (1, 2, 5),
    "expand_4": (2, 4, 6), "kernel_3": (3, 5, 7), "kernel_5": (3, 5, 7), "mlp_ratio": (1.0, 2.0, 4.0),
}  # fmt: skip


@pytest.mark.parametrize(("family", "knob"), [(f, k) for f, knobs in SIZES.items() for k in knobs])
def test_more_of_anything_is_more_products(family, knob):
    found = [network(family, **{knob: value}) for value in GROWING[knob]]
    macs = [w.macs for w in found]
    assert macs == sorted(macs)
    assert len(set(macs)) == len(macs)
    weights = [w.weights for w in found]
    assert weights == sorted(weights)


@pytest.mark.parametrize(("family", "layers"), [("mobilenet_v2", 2 * 3), ("resnet", 2 * 2 + 1)])
def test_a_stages_value_touches_that_stage_only(family, layers):
    changed = shapes(network(family, weight_bits_2=4, kernel_2=5)) - shapes(network(family))
    assert {layer.weight_bits for _, layer in changed} == {4}
    assert changed.total() == layers


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_any_allowed_values_make_a_network(data):
    """Whole and consistent: every layer's input is some earlier layer's output (or the image)."""
    name = data.draw(st.sampled_from(["mobilenet_v2", "resnet"]))
    params = {}
    for knob in FAMILIES[name].knobs:
        if data.draw(st.booleans()):
            stem = knob.split("_")[0] if not knob.startswith(("weight", "activation")) else "bits"
            params[knob] = data.draw(
                {
                    "width": st.floats(0.2, 2.0), "resolution": st.integers(32, 320), "classes": st.integers(1, 2000),
                    "kernel": st.sampled_from([1, 3, 5, 7]), "expand": st.integers(1, 8), "depth": st.integers(1, 4),
                    "bits": st.integers(1, 16), "block": st.sampled_from(["basic", "bottleneck"]),
                }[stem]
            )  # fmt: skip
    found = network(name, **params)
    seen = {3}
    for layer in found.layers:
        assert layer.in_channels in seen, layer.name
        seen.add(layer.out_channels)
    assert found.params.items() >= params.items()


# -------------------------------------------------------------------- searching
SEARCH = {"width": [0.5, 1.0], "depth_3": [1, 2, 3]}


def searched(**entry):
    return workloads.networks_of({"net": {"family": "mobilenet_v2", "search": SEARCH} | entry})


def test_searched_knobs_become_parameters():
    found = searched()
    assert [(p.name, p.choices, p.level) for p in found.parameters] == [
        ("net.width", (0.5, 1.0), "network"), ("net.depth_3", (1, 2, 3), "network"),
    ]  # fmt: skip
    for width, depth in itertools.product(*SEARCH.values()):
        (one,) = found.at({"net.width": width, "net.depth_3": depth})
        assert shapes(one) == shapes(network("mobilenet_v2", width=width, depth_3=depth))
        assert one.params["width"] == width
    assert found.first[0].params["width"] == 0.5
    followers = searched(search={"weight_bits_3": [4, 8], "resolution": [96, 128]}).parameters
    assert [p.unit for p in followers] == ["bit", "px"]


def test_the_identity_is_what_a_file_gives_back():
    """A study compares it with what it wrote as JSON."""
    identity = searched().identity
    assert json.loads(json.dumps(identity)) == identity
    assert identity != searched(params={"kernel": 5}).identity


def test_bits_of_any_network_can_be_searched():
    found = workloads.networks_of({"resnet18": {"search": {"weight_bits": [2, 4]}, "params": {"activation_bits": 6}}})
    (one,) = found.at({"resnet18.weight_bits": 4})
    assert {(x.weight_bits, x.activation_bits) for x in one.layers} == {(4, 6)}
    assert one.macs == workloads.load("resnet18").macs
    assert one.fingerprint != workloads.load("resnet18").fingerprint


def test_combinations_that_are_no_network_are_refused():
    found = workloads.networks_of({"v": {"family": "vit", "search": {"width": [192, 200], "heads": [3, 8]}}})
    (rule,) = found.rules
    designs = Designs(ParameterSet(found.parameters), np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
    assert rule.holds(designs).tolist() == [True, True, False, True]
    assert searched().rules == ()


def test_families_without_a_combination_are_an_error():
    entry = {"family": "vit", "search": {"width": [193], "heads": [2, 4]}}
    with pytest.raises(InputError, match="no combination of the choices is a network"):
        assert workloads.networks_of({"v": entry}).first


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"search": {"widht": [1.0]}}, "'widht'; did you mean 'width'"),
        ({"search": {"width": 1.0}}, r"search.width=1.0 must be a list of choices"),
        ({"search": {"width": []}}, "must be a list of choices"),
        ({"search": {"width": [1.0, -2]}}, r"search.width=-2 must be a number in 0.1..8"),
        ({"search": {"kernel": [3, 4]}}, "kernel=4 must be an odd whole number"),
        ({"search": {"width": [1.0, 1.0]}}, "repeats a choice"),
        ({"search": {"width": ["wide"]}}, "search.width='wide' must be a number"),
        ({"search": [1]}, "search must be"),
        ({"params": {"width": 1.0}, "search": {"width": [1.0, 2.0]}}, "width stands in params and in search"),
        ({"params": {"expand_1": 6}}, "'expand_1'"),
    ],
)
def test_faults_in_searches(entry, message):
    with pytest.raises(InputError, match=message):
        assert workloads.networks_of({"net": {"family": "mobilenet_v2"} | entry}).parameters


def test_networks_of_no_family_have_only_bits():
    with pytest.raises(InputError, match=r"'width' is a parameter of a family .*weight_bits and activation_bits"):
        workloads.networks_of({"resnet18": {"search": {"width": [0.5]}}})
    with pytest.raises(InputError, match="left to a search"):
        workloads.load_entries({"resnet18": {"search": {"weight_bits": [4]}}})
    assert set(BITS) == {"weight_bits", "activation_bits"}


def test_a_plugins_function_gives_its_parameters():
    from cimopt.types import Layer, Workload
    from cimopt.workloads.families import of_function

    def mine(hidden=64, slope=0.5, kind="a"):
        return Workload("mine", (Layer(f"fc_{kind}", "linear", 10, hidden),))

    family = of_function(mine)
    values = {"hidden": 32, "slope": -1.5, "kind": "b", "weight_bits": 4}
    built = family.build("net", values)
    assert (built.name, built.layers[0].out_channels, built.layers[0].weight_bits) == ("net", 32, 4)
    assert set(family.knobs) == {"hidden", "slope", "kind", "weight_bits", "activation_bits"}
    with pytest.raises(InputError, match="needs a default for 'hidden'"):
        of_function(lambda hidden: None)


def test_products_of_activations_have_the_bits_of_activations():
    """Keys and values are outputs of other layers: narrower weights do not shrink them."""
    for entry in ({"family": "vit"}, {"name": "vision_transformer"}):
        (net,) = workloads.load_entries({"v": entry | {"params": {"weight_bits": 4, "activation_bits": 6}}})
        assert {(x.weight_bits, x.activation_bits) for x in net.layers if x.dynamic} == {(6, 6)}
        assert {(x.weight_bits, x.activation_bits) for x in net.layers if not x.dynamic} == {(4, 6)}
    (net,) = workloads.load_entries({"vision_transformer": {"params": {"weight_bits": 4}}})
    assert {x.weight_bits for x in net.layers if x.dynamic} == {8}


def test_a_searched_networks_identity_follows_its_code(tmp_path, monkeypatch):
    from cimopt import plugins

    monkeypatch.syspath_prepend(tmp_path)
    identities = []
    for body in ("1", "2"):
        (tmp_path / "mine.py").write_text(f"def net(hidden=2):\n    return {body}\n")
        plugins.code_of.cache_clear()
        sys.modules.pop("mine", None)
        import mine  # noqa: F401

        identities.append(plugins.code_of("mine"))
    assert identities[0] != identities[1]
    plugins.code_of.cache_clear()
    assert len(searched().identity["net"]["code"]) == 3


def test_kinds_of_a_functions_parameters():
    from cimopt.types import Layer, Workload
    from cimopt.workloads.families import of_function

    def mine(extra=0, causal=True, slope=0.5):
        return Workload("mine", (Layer("fc", "linear", 10, 10 + extra),))

    knobs = of_function(mine).knobs
    assert knobs["extra"].checked(0, "extra") == 0
    assert "causal" not in knobs, "neither number nor word: it keeps its default"
    assert of_function(mine).build("net", {"extra": 3, "slope": 1.0}).layers[0].out_channels == 13


@pytest.mark.parametrize("name", ["a/b", "a.b", "", " ", "a\\b"])
def test_names_that_are_no_file_or_parameter_are_refused(name):
    with pytest.raises(InputError, match="must not be empty or contain a point or a slash"):
        workloads.networks_of({name: {"family": "resnet"}})
