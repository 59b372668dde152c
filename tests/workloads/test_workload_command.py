"""`cimopt workload show|import`: files in, readable YAML and totals out, faults as one sentence."""

import json

import pytest

from cimopt import workloads
from cimopt.commands.workload import main
from cimopt.types import Layer, Workload
from cimopt.workloads.importers.references import identified

CSV = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\nc1, 8, 8, 3, 3, 4, 8, 1,\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.csv").write_text(CSV)
    return tmp_path


def test_import_writes_yaml_that_loads_to_the_same_network(folder, capsys):
    assert main(["import", "net.csv", "--padding", "same", "--out", "mine.yaml", "--name", "mine"]) == 0
    printed = capsys.readouterr().out
    assert "18,432" in printed
    assert "wrote mine.yaml" in printed
    workload = workloads.load("./mine.yaml")
    assert (workload.name, workload.macs, workload.weights) == ("mine", 18_432, 288)
    assert (folder / "mine.yaml").read_text().startswith("# Imported by")


def test_import_without_out_never_writes_over_anything_else(folder, capsys):
    assert main(["import", "net.csv", "--padding", "same"]) == 0
    assert main(["import", "net.csv", "--padding", "valid"]) == 0  # its own output may be renewed
    assert workloads.load("./net.yaml").macs == 288 * 36
    (folder / "net.yaml").write_text("name: mine\n")
    assert main(["import", "net.csv", "--padding", "same"]) == 2
    assert (folder / "net.yaml").read_text() == "name: mine\n"
    assert main(["import", "net.csv", "--padding", "same", "--out", "net.csv"]) == 2
    assert main(["import", "net.csv", "--padding", "same", "--out", "no/such/folder.yaml"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_show_takes_zoo_names_own_files_and_files_of_other_tools(folder, capsys):
    for arguments in (["vgg11"], ["vgg11_cifar10"], ["net.csv", "--padding", "valid"]):
        assert main(["show", *arguments, "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert {"macs", "weights", "layers", "ignored"} <= set(shown)
        assert shown["macs"] in (794_492_928, 10_368)
    assert main(["import", "net.csv", "--padding", "same"]) == 0
    capsys.readouterr()
    assert main(["show", "net.yaml"]) == 0
    assert "18,432" in capsys.readouterr().out


def test_show_takes_choices_of_the_configuration(folder, capsys):
    assert main(["show", "llama2_7b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights"] == 6_607_077_376
    assert main(["show", "net9"]) == 2
    assert "set of networks; show one of them: resnet18" in capsys.readouterr().err


def test_show_prints_warnings_beside_json_and_in_it(folder, capsys):
    (folder / "odd.csv").write_text(CSV + "c2, 99, 99, 3, 3, 8, 8, 1\n")
    assert main(["show", "odd.csv", "--padding", "same", "--json"]) == 0
    printed = capsys.readouterr()
    assert "99x99" in json.loads(printed.out)["warnings"][0]
    assert "warning:" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "resnet81"], "did you mean 'resnet18'"),
        (["show", "none.onnx"], "no ONNX model 'none.onnx'"),
        (["show", "none.yaml"], "no workload file 'none.yaml'"),
        (["show", "none.csv"], "no SCALE-Sim file 'none.csv'"),
        (["import", "net.csv"], "choose --padding"),
        (["import", "net.csv", "--padding", "same", "--bind", "N"], "--bind N: give NAME=SIZE"),
        (["import", "net.csv", "--padding", "same", "--bind", "N=0"], "--bind N=0"),
        (["import", "net.csv", "--format", "onnx"], "is no ONNX model"),
        (["import", "."], "holds no Timeloop problem"),
        (["import", "net.csv", "--padding", "same", "--name", ""], "must not be empty"),
    ],
)
def test_faults_are_one_sentence_and_exit_code_2(folder, capsys, arguments, message):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("cimopt: ")
    assert error.count("\n") == 1


def test_w25_a_difference_from_a_well_known_network_is_stated():
    """Public MobileNetV2 lists hold an extra 1x1 layer: 12,845,056 MACs too many."""
    layers = (Layer(name="all", kind="linear", in_channels=1, out_channels=300_774_272 + 12_845_056),)
    variant, notes = identified(Workload(name="MobileNet-V2", layers=layers))
    assert variant == ""
    assert "differs by +12,845,056" in notes[0]


def test_onnx_without_the_extra_is_one_sentence(folder, capsys, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    (folder / "net.onnx").write_bytes(b"x")
    assert main(["import", "net.onnx"]) == 2
    assert "pip install 'cimopt[onnx]'" in capsys.readouterr().err


def test_pytorch_modules_without_the_extra(monkeypatch):
    from cimopt.errors import MissingExtraError
    from cimopt.workloads.importers import torch_fx

    monkeypatch.setattr(torch_fx, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"cimopt\[torch\]"):
        torch_fx.from_module(object(), ())
