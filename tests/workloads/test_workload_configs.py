"""The workload config group composes to a dict keyed by network, in every form a command may use."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from cimopt import workloads

CONF = Path(__file__).resolve().parents[2] / "conf"
CNN4 = ["resnet18", "vgg16", "alexnet", "mobilenet_v3"]
NET9 = [*CNN4, "mobilebert", "densenet201", "resnet50", "vision_transformer", "gpt2_medium"]


@pytest.fixture
def composed(tmp_path):
    """Compose a scratch app whose defaults are those of cimopt, as far as workloads go."""
    app = f"defaults: [{{workload: cnn4}}, _self_]\nhydra: {{searchpath: ['file://{CONF}']}}\n"
    (tmp_path / "app.yaml").write_text(app, encoding="utf-8")

    def composed(*overrides):
        with initialize_config_dir(str(tmp_path), version_base="1.3"):
            return OmegaConf.to_container(compose("app", overrides=list(overrides)), resolve=True)["workload"]

    return composed


def zoo(names):
    return {name: {"name": name, "source": "zoo"} for name in names}


def published(names):
    return {name: {"name": name, "source": "published"} for name in names}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], zoo(CNN4)),
        (["workload=cnn4"], zoo(CNN4)),
        (["workload=vgg16"], zoo(["vgg16"])),
        (["workload=[resnet18,vgg16]"], zoo(["resnet18", "vgg16"])),
        (["workload=net9"], zoo(NET9)),
        (["workload=cnn4_published"], published(CNN4)),
        (["workload=net9_published"], published(NET9)),
        (["workload=cnn4", "+workload.mine.file=./a.yaml"], zoo(CNN4) | {"mine": {"file": "./a.yaml"}}),
        (["workload=[]", "+workload.mine.file=./a.yaml"], {"mine": {"file": "./a.yaml"}}),
        (
            ["workload.vgg16.source=published", "~workload.alexnet"],
            zoo(["resnet18"]) | published(["vgg16"]) | zoo(["mobilenet_v3"]),
        ),
    ],
)
def test_forms_of_choosing(composed, overrides, expected):
    found = composed(*overrides)
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize("path", sorted((CONF / "workload").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_choice_loads(composed, path):
    found = workloads.networks_of(composed(f"workload={path.stem}")).first
    assert all(w.layers for w in found)
    if path.stem in workloads.names():
        assert [w.name for w in found] == [path.stem]


def test_every_zoo_network_is_a_choice():
    assert set(workloads.names()) <= {path.stem for path in (CONF / "workload").glob("*.yaml")}
