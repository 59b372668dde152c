"""What the experiments and the readme show: golden figures of the paper, and commands that work as written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cimopt_zeroskip.evaluator import ZeroSkipEvaluator
from cimopt_zeroskip.figures import (
    block_points,
    chip_sizes,
    cycles_per_full_array,
    fairer_runs,
    fit_line,
    layer_points,
    network_works,
    paper_runs,
    speedups,
    spread,
    unseen,
)
from cimopt_zeroskip.profile import load_shipped
from cimopt_zeroskip.published import CHIP_SIZES, published_bottlenecks, published_works
from cimopt_zeroskip.settings import Settings

from cimopt import plugins
from cimopt.config.compose import compose
from cimopt.workloads import load

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def resnet18():
    """Work of the paper's run."""
    return published_works("resnet18")


def test_fig_4_is_a_line_over_the_arrays_rows(resnet18):
    """Cycles per operation range from about 70 to 240 without the first layer, 522 to 573 for it (hand-scaled)."""
    line = fit_line(*(v[1:] for v in layer_points(resnet18, over="array")))
    assert line.r2 > 0.99
    cycles = cycles_per_full_array(resnet18)
    assert 65 < cycles[1:].min() < cycles[1:].max() < 245
    assert 522 <= cycles[0] * 1176 / 2048 <= 573


def test_fig_6_spreads_and_line(resnet18):
    """Published: 12 % and 27 %; the run behind the block totals: 10.1 % and 25.7 %, line 58.6 + 8.65 x %."""
    ten, fifteen = (block_points(resnet18[i]) for i in (10, 15))
    assert spread(ten[1]) == pytest.approx(0.101, abs=0.001)
    assert spread(fifteen[1]) == pytest.approx(0.257, abs=0.001)
    line = fit_line(*(np.concatenate([a, b]) for a, b in zip(ten, fifteen, strict=True)))
    assert (line.slope, line.intercept) == (pytest.approx(8.65, rel=0.06), pytest.approx(58.6, rel=0.06))
    assert line.r2 == pytest.approx(0.99, abs=0.01)


def test_chip_sizes_are_the_papers(resnet18):
    assert chip_sizes(resnet18) == CHIP_SIZES["resnet18"] == tuple(published_bottlenecks("resnet18"))


def test_fig_8_throughput(resnet18):
    """31.3 TMAC/s for block-wise allocation at 384 PEs and 100 MHz; ratios from the published cycles."""
    runs = paper_runs(resnet18, 24576)
    assert sum(w.mapped.macs for w in resnet18) * runs["block-wise"].throughput_ips(1e8) / 1e12 == pytest.approx(
        31.3, rel=0.01
    )
    published = published_bottlenecks("resnet18")[24576]
    assert published["baseline"] / published["block-wise"] == pytest.approx(8.83, abs=0.005)
    assert speedups(runs)["weight-based"] == pytest.approx(7.46, rel=0.03)
    without_first = paper_runs(resnet18[1:], 24576 - 40)
    assert speedups(without_first)["weight-based"] == pytest.approx(2.16, rel=0.02)


def test_claims_on_real_activations():
    """Block-wise wins on every chip; the optimum bounds it; a plan for the same images loses nothing."""
    works = network_works(load_shipped("squeezenet"))
    for n in chip_sizes(works):
        cycles = {name: chip.cycles for name, chip in paper_runs(works, n).items()}
        assert cycles["block-wise"] <= cycles["performance-based"] <= cycles["weight-based"] <= cycles["baseline"]
        best = fairer_runs(works, n)
        assert 0.97 * cycles["block-wise"] <= best["optimal, block-wise"].cycles <= cycles["block-wise"]
        assert best["optimal, block-wise"].cycles <= best["optimal, layer-wise"].cycles <= cycles["performance-based"]
        for chip in best.values():
            assert (chip.layer_utilization <= 1 + 1e-12).all()
            assert chip.layer_arrays.sum() <= n
    assert set(unseen(works, works, 2000).values()) == {1.0}


def test_the_readmes_example_runs():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    names: dict = {}
    exec(code, names)
    run = names["run"]
    assert run.busy + run.stall == run.arrays * run.cycles
    assert run.arrays <= 100


def test_config_and_code_have_the_same_defaults():
    config = compose(["space=zeroskip", "evaluator=zeroskip", "workload=resnet50_thin"])
    evaluator = ZeroSkipEvaluator.from_config(config["evaluator"]["zeroskip"])
    assert evaluator.settings.plain() == Settings().plain()
    assert list(config["workload"]) == ["resnet50_thin"]
    assert plugins.load("cimopt.evaluators", "zeroskip") is ZeroSkipEvaluator


@pytest.mark.parametrize("name", ["resnet50_thin", "vgg16_trunk", "squeezenet", "vgg11_cifar10"])
def test_announced_workloads(name):
    workload = plugins.load("cimopt.workloads", name)()
    assert workload.name == name
    assert all(layer.kind == "conv" for layer in workload.layers)


def test_the_verb_finds_this_plugin(capsys):
    from cimopt.commands.profile import main

    assert main(["none.onnx", "--images", "nowhere"]) == 2
    assert "there is no model none.onnx" in capsys.readouterr().err


def test_cycles_follow_the_shared_converter():
    """NeuroSim V1.3 issue 37: sharing must scale the time and never make it vanish."""
    from cimopt_zeroskip.mapping import ArraySpec, map_layers
    from cimopt_zeroskip.synthetic import synthetic_profile
    from cimopt_zeroskip.work import trace_work

    profile = synthetic_profile(load("alexnet"))
    totals = []
    for columns in (1, 4, 8, 32):
        mapped = map_layers(profile.layers[1:2], ArraySpec(cols_per_adc=columns))[0]
        totals.append(trace_work(profile, 1, mapped, [0]).sync_total / columns)
    assert totals == [totals[0]] * 4
    assert totals[0] > 0
