"""Strict loading: each fault is one sentence naming the file, the layer and the key."""

import time
from pathlib import Path
from textwrap import dedent

import pytest

from cimopt import workloads
from cimopt.errors import InputError
from cimopt.types import Workload

GOOD = """\
name: tiny
layers:
  - {name: conv1, kind: conv, in_channels: 3, out_channels: 64, kernel: [7, 7], stride: [2, 2], padding: 3,
     out_map: [112, 112]}
  - {name: fc, kind: linear, in_channels: 64, out_channels: 10}
"""


@pytest.fixture
def load_text(tmp_path):
    def load_text(text: str) -> Workload:
        path = tmp_path / "net.yaml"
        path.write_text(dedent(text), encoding="utf-8")
        return workloads.load(path)

    return load_text


def test_a_persons_own_file(load_text):
    workload = load_text(GOOD)
    conv1, fc = workload.layers
    assert conv1.padding == (3, 3, 3, 3)
    assert conv1.stride == (2, 2)
    assert fc.macs == 640
    assert workload.variant == ""
    assert workload.input_shape is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("stride: [2, 2]", "HStride: 2", "conv1.*'HStride'; did you mean 'stride'"),
        ("stride: [2, 2]", "Stride: 2", "conv1.*'Stride'; did you mean 'stride'"),
        ("name: tiny", "name: tiny\nlayer: []", "net.yaml.*'layer'; did you mean 'layers'"),
        ("out_map: [112, 112]", "out_map: [0, 112]", r"conv1.*out_map=\(0, 112\)"),
        ("out_map: [112, 112]", "out_map: [-1, 112]", r"conv1.*out_map=\(-1, 112\)"),
        ("in_channels: 3,", "in_channels: 0,", "conv1.*in_channels=0"),
        ("kernel: [7, 7]", "kernel: [7, 0]", r"conv1.*kernel=\(7, 0\)"),
        ("stride: [2, 2]", "groups: 0", "conv1.*groups=0"),
        ("stride: [2, 2]", "groups: 2", "conv1.*in_channels=3 is no multiple of groups=2"),
        ("in_channels: 3,", "in_channels: '3',", "conv1.*in_channels='3'"),
        ("in_channels: 3,", "in_channels: 3.0,", "conv1.*in_channels=3.0"),
        ("in_channels: 3,", "in_channels: true,", "conv1.*in_channels=True"),
        ("in_channels: 3,", "in_channels: null,", "conv1.*in_channels=None"),
        ("kernel: [7, 7]", "kernel: [7, 7, 7]", "conv1.*kernel.*height, width"),
        ("padding: 3", "padding: [3, 3]", "conv1.*padding.*top, left, bottom, right"),
        ("padding: 3", "padding: -1", "conv1.*padding"),
        ("kind: conv", "kind: cnv", "conv1.*'cnv'; did you mean 'conv'"),
        ("kind: conv", "kind: [conv]", "kind"),
        ("kernel: [7, 7], ", "", "conv1.*missing kernel"),
        (",\n     out_map: [112, 112]", "", "conv1.*missing out_map"),
        ("kind: conv, ", "", "conv1.*missing kind"),
        ("name: fc", "name: conv1", "two layers are named 'conv1'"),
        ("name: fc", "name: no", "name=False must be text"),
        ("kind: linear", "kind: linear, kind: linear", "'kind' is given twice"),
        ("kind: linear", "kind: linear, dynamic: 1", "fc.*dynamic=1 must be true or false"),
        ("kind: linear", "kind: linear, mean_input: high", "fc.*mean_input='high'"),
        ("kind: linear", "kind: linear, mean_input: .nan", "fc.*mean_input=nan"),
        ("kind: linear", "kind: linear, mean_input: 1.5", "fc.*mean_input=1.5"),
        ("kind: linear", "kind: linear, mean_weight_slice: [0.5]", "fc.*mean_weight_slice needs 8"),
        ("kind: linear", "kind: linear, mean_weight_slice: 0.5", "fc.*mean_weight_slice=0.5 must be a list"),
        ("name: tiny", "name: tiny\ntotals: {macs: 1}", "totals.macs says 1, but the layers give 118014592"),
        ("name: tiny", "name: tiny\ntotals: {mac: 1}", "'mac'; did you mean 'macs'"),
        ("name: tiny", "name: tiny\ntotals: 5", "totals must be"),
        ("name: tiny", "name: tiny\ninput_shape: [3, 0]", "input_shape"),
        ("name: tiny", "name: 5", "name=5 must be text"),
        ("name: tiny", "variant: x", "missing name"),
        ("name: tiny", "name: [", "not valid YAML"),
        ("name: tiny", "name: 2024-13-45", "not valid YAML"),
        ("name: tiny", "name: !!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
)
def test_faults_are_named(load_text, old, new, message):
    assert old in GOOD
    with pytest.raises(InputError, match=f"(?s)net.yaml.*{message}|{message}") as caught:
        load_text(GOOD.replace(old, new, 1))
    assert "net.yaml" in str(caught.value)


def test_a_timeloop_style_shape_must_not_load_quietly(load_text):
    """Seen in public layer files: `HStride` where the tool reads `Hstride`, so strides became 1."""
    with pytest.raises(InputError, match=r"unknown key in .*net\.yaml, layer 'a'"):
        load_text("name: x\nlayers:\n  - {name: a, kind: conv, C: 3, M: 64, P: 112, Q: 112, R: 7, S: 7, HStride: 2}\n")


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "name: x", "name: x\nlayers: []", "name: x\nlayers: {}", "name: x\nlayers: [3]"]
)
def test_content_that_is_no_workload(load_text, text):
    with pytest.raises(InputError, match=r"net\.yaml"):
        load_text(text)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no workload file"):
        workloads.load(tmp_path / "none.yaml")
    with pytest.raises(InputError, match=r"must end in \.yaml"):
        workloads.load(tmp_path / "net.onnx")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        workloads.load(tmp_path / "folder.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(InputError, match="cannot be read"):
        workloads.load(str(tmp_path / "latin.yaml"))


def test_misspelt_names_and_sources():
    with pytest.raises(InputError, match="unknown workload 'resnet81'; did you mean 'resnet18'"):
        workloads.load("resnet81")
    with pytest.raises(InputError, match="unknown workload source 'zo'; did you mean 'zoo'"):
        workloads.load("resnet18", source="zo")
    with pytest.raises(InputError, match="unknown workload source"):
        workloads.names("web")


def test_relative_paths_start_at_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "net.yml").write_text(GOOD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert workloads.load("net.yml") == workloads.load("./net.yml")


def test_entries_are_named_by_their_key(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text(GOOD, encoding="utf-8")
    entries = {
        "vgg16": {"name": "vgg16", "source": "zoo"},
        "as_published": {"name": "vgg16", "source": "published"},
        "alexnet": {},
        "mine": {"file": str(path)},
    }
    found = workloads.load_entries(entries)
    assert [w.name for w in found] == list(entries)
    assert [w.variant for w in found] == ["torchvision, no batch norm", "published", "torchvision", ""]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "no workload is chosen"),
        (["resnet18"], "keyed by name"),
        ({"a": "resnet18"}, "workload.a='resnet18' must hold"),
        ({"a": {"nme": "resnet18"}}, "workload.a.*'nme'; did you mean 'name'"),
        ({"a": {"name": 18}}, "workload.a.name=18 must be text"),
        ({"a": {"file": "x.yaml", "source": "zoo"}}, "either file or source"),
        ({"resnet_18": {}}, "did you mean 'resnet18'"),
    ],
)
def test_faults_in_entries(entries, message):
    with pytest.raises(InputError, match=message):
        workloads.load_entries(entries)


def test_entry_name_may_not_contradict_its_file(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert workloads.load_entries({"mine": {"file": str(path), "name": "tiny"}})[0].name == "mine"
    with pytest.raises(InputError, match=r"workload\.mine\.name='other'.*holds 'tiny'"):
        workloads.load_entries({"mine": {"file": str(path), "name": "other"}})


def test_one_zoo_network_loads_in_well_under_50_ms():
    def seconds() -> float:
        start = time.perf_counter()
        workloads.load("mobilenet_v3")
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 0.05


def test_the_example_of_the_guide_loads(load_text):
    guide = (Path(__file__).resolve().parents[2] / "docs" / "workloads.md").read_text()
    example = guide.split("```yaml\n")[1].split("```")[0]
    assert load_text(example).n_layers == 2


def test_table_ends_in_the_totals():
    workload = workloads.load("resnet18")
    *rows, total = workloads.layer_totals(workload)
    assert len(rows) == len(workload.layers)
    for key in ("layers", "macs", "weights", "activations"):
        assert sum(getattr(row, key) for row in rows) == getattr(total, key)
    assert total.macs == workload.macs
    assert total.activations == workload.activations
    lines = workloads.format_table(workload).splitlines()
    assert "1,814,073,344" in lines[-1]
    assert "11,678,912" in lines[-1]
    assert len({len(line) for line in lines}) == 1
