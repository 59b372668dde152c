"""What `to_yaml` writes, `load` reads back to an equal workload, whatever names and numbers it holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt import workloads
from cimopt.types import Layer, Workload
from cimopt.workloads.yaml_file import parse_workload

sizes = st.integers(1, 5000)
pairs = st.tuples(sizes, sizes)
fractions = st.floats(0, 1)
# Any text that UTF-8 can hold, words that YAML takes for something else included.
texts = st.one_of(
    st.text(st.characters(codec="utf-8")), st.sampled_from(["no", "1e3", "0x1f", "null", "a: b", "2024-01-01", "~"])
)
labels = texts.filter(bool)


@st.composite
def layers(draw, name):
    groups = draw(st.integers(1, 64))
    return Layer(
        name=name,
        kind=draw(st.sampled_from(["conv", "linear", "matmul"])),
        in_channels=groups * draw(sizes),
        out_channels=groups * draw(sizes),
        kernel=draw(pairs),
        stride=draw(pairs),
        padding=draw(st.tuples(*[st.integers(0, 9)] * 4)),
        dilation=draw(pairs),
        groups=groups,
        out_map=draw(pairs),
        batch=draw(sizes),
        repeats=draw(sizes),
        dynamic=draw(st.booleans()),
        mean_input=draw(st.none() | fractions),
        mean_weight_slice=draw(st.none() | st.tuples(*[fractions] * 8)),
        weight_bits=draw(st.integers(1, 16)),
        activation_bits=draw(st.integers(1, 16)),
    )


@st.composite
def networks(draw):
    names = draw(st.lists(labels, min_size=1, max_size=4, unique=True))
    return Workload(
        name=draw(labels),
        layers=tuple(draw(layers(name)) for name in names),
        variant=draw(texts),
        source=draw(texts),
        input_shape=draw(st.none() | st.lists(sizes, min_size=1, max_size=4).map(tuple)),
    )


@settings(deadline=None)
@given(networks(), st.text(st.characters(codec="ascii", categories=["L", "N"])))
def test_any_workload_survives(workload, comment):
    read = parse_workload(workloads.to_yaml(workload, comment), "test")
    assert read == workload
    assert read.fingerprint == workload.fingerprint


@pytest.mark.parametrize("source", workloads.SOURCES)
def test_every_shipped_workload_survives(source):
    for name in workloads.names(source):
        workload = workloads.load(name, source=source)
        assert parse_workload(workloads.to_yaml(workload), name) == workload


def test_one_line_per_layer_with_every_conv_key_stated():
    text = workloads.to_yaml(workloads.load("alexnet"))
    lines = [line for line in text.splitlines() if line.startswith("  - ")]
    assert len(lines) == 8
    for key in ("kernel", "stride", "padding", "groups", "out_map"):
        assert f"{key}: " in lines[0]
    assert lines[0].startswith("  - {name: features.0, kind: conv, in_channels: 3, out_channels: 64, kernel: [11, 11]")
