"""Typed configuration: strict keys, all missing values at once, readable differences."""

import pytest

from cimopt.config.compose import compose
from cimopt.config.schema import differences, parse
from cimopt.errors import InputError


@pytest.fixture(scope="module")
def plain():
    return compose()


def test_defaults_are_designs(plain):
    config = parse(plain)
    assert config.space["name"] == "rram"
    assert list(config.workload) == ["resnet18", "vgg16", "alexnet", "mobilenet_v3"]
    assert list(config.evaluator) == ["tiled_physical"]
    assert (config.objective["name"], config.sampler.name, config.runner.name, config.seed) == (
        "edap",
        "four_phase",
        "auto",
        1,
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spaces": {}}, "unknown config key 'spaces'; did you mean 'space'"),
        ({"runner": {"name": "ray", "worker": 2}}, "unknown key in runner 'worker'; did you mean 'workers'"),
        ({"runner": {"name": "rai"}}, "unknown runner.name 'rai'; did you mean 'ray'"),
        ({"runner": {"workers": 1.5}}, "runner.workers=1.5 must be a whole number >= 1, or null"),
        ({"runner": {"timeout_s": 0}}, "runner.timeout_s=0 must be"),
        ({"tracking": {"name": "mlfow"}}, "did you mean 'mlflow'"),
        ({"seed": -1}, "seed=-1 must be a whole number >= 0"),
        ({"seed": True}, "seed=True"),
        ({"space": None}, "space=None must be a section"),
        ({"workload": ["resnet18"]}, "must be a section"),
        ({"sampler": {"name": "x"}}, "sampler lacks kind"),
        ({"sampler": {"name": "x", "kind": "random", "stop_after": -1}}, "sampler.stop_after=-1"),
        ({"report": {"top": 0}}, "report.top=0"),
    ],
)
def test_one_sentence_per_mistake(plain, change, words):
    with pytest.raises(InputError, match=words):
        parse({**plain, **change})


def test_all_missing_values_at_once(plain):
    """Case G3."""
    with pytest.raises(InputError, match=r"no value is given for space.parameters.a.choices, seed"):
        parse({**plain, "space": {"parameters": {"a": {"choices": "???"}}}, "seed": "???"})


def test_runner_and_tracking_do_not_change_the_identity(plain):
    assert parse(plain).hash == parse({**plain, "runner": {"name": "ray"}, "tracking": {"name": "none"}}).hash
    assert parse(plain).hash != parse({**plain, "seed": 2}).hash
    stopped = {**plain["sampler"], "stop_after": 3}
    assert parse(plain).hash == parse({**plain, "sampler": stopped}).hash, "stopping early keeps the schedule"


def test_differences_name_dotted_keys():
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": 4}) == ["a.c: 2 -> 3", "d: None -> 4"]
    assert differences({"a": [1]}, {"a": [1]}) == []


def test_experiments_hold_only_differences():
    config = parse(compose(["experiment=published_rram"]))
    assert config.sampler.name == "four_phase_paper"
    assert all(entry["source"] == "published" for entry in config.workload.values())


def test_workload_lists_and_single_networks():
    assert list(compose(["workload=[resnet18,vgg16]"])["workload"]) == ["resnet18", "vgg16"]
    assert list(compose(["workload=vgg16"])["workload"]) == ["vgg16"]
    assert list(compose(["evaluator=[tiled_published,techcost]"])["evaluator"]) == ["tiled_published", "techcost"]
