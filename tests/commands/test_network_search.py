"""Networks and chip searched together, through the commands."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from cimopt import workloads
from cimopt.config.assemble import assemble
from cimopt.config.compose import compose
from cimopt.config.schema import parse

QUIET = ("tracking=none", "runner=serial", "report.plots=false")
NET = "workload.net={family: mobilenet_v2, search: {width: [0.5, 0.75, 1.0], depth_3: [1, 3], weight_bits: [4, 8]}}"
JOINT = ("space=rram_small", "workload=[]", NET, *QUIET)
LIMITED = ("evaluator=[tiled_published,network_size]", "objective.limits.network_bit_operations={min: 9e9}")


def best(cimopt, run):
    return cimopt.result(run)["best"]


@pytest.fixture
def done(cimopt):
    def run(*arguments):
        finished = cimopt(*arguments, timeout=240)
        assert finished.returncode == 0, finished.stderr
        return finished

    return run


def test_the_joint_optimum_is_found_and_its_network_written(cimopt, done):
    """1,200 chips x 12 networks: the same best design by search and by enumeration, on Ray too."""
    done("search", *JOINT, *LIMITED, "hydra.run.dir=s")
    done("enumerate", *JOINT, *LIMITED, "hydra.run.dir=e")
    found, optimum = best(cimopt, "s"), cimopt.result("e")["optimum"]
    assert cimopt.result("e")["n_evaluated"] == 14_400
    assert found["design"] == optimum["design"]
    assert found["score"] == optimum["score"]
    done("search", *JOINT, *LIMITED, "runner=ray", "runner.workers=2", "hydra.run.dir=r")
    assert cimopt.result("r")["top"] == cimopt.result("s")["top"]

    network = workloads.load(cimopt.folder / "s" / "networks" / "net.yaml")
    counted = found["metrics"]["net"]
    assert (network.macs, network.weights) == (counted["network_macs"], counted["network_weights"])
    # The same design on that file, as any fixed network: the same metrics.
    chip = [f"design.{k}={v}" for k, v in found["design"].items() if "." not in k and k != "memory"]
    file = "workload.net.file=s/networks/net.yaml"
    done("evaluate", "space=rram_small", "workload=[]", file, LIMITED[0], *chip, "hydra.run.dir=v")
    alone = cimopt.result("v")["metrics"]["net"]
    assert {k: alone[k] for k in counted} == pytest.approx(counted, rel=1e-12)


def test_limits_on_cheap_metrics_are_known_before_evaluating():
    """The start pool holds no network that a limit refuses; other designs are refused for their cells."""
    rooms = assemble(parse(compose([*JOINT[:2], NET, *LIMITED, "tracking=none"])))
    genes = rooms.space.sample(300, np.random.default_rng(2))
    amounts, metrics = rooms.precheck(genes), rooms.chain.evaluate(rooms.space.designs(genes), rooms.workloads)
    operations = rooms.cheap.evaluate(rooms.space.designs(genes), rooms.workloads).values["network_bit_operations"]
    missed = (operations[:, 0] < 9e9) | (metrics.violations["cells"] > 0)
    assert np.array_equal(amounts > 0, missed)
    assert 0 < missed.sum() < 300
    assert assemble(parse(compose(["evaluator=tiled_physical"]))).cheap is None


def test_accuracy_decides_how_large_the_network_is(cimopt, done, with_stranger):
    """With an accuracy evaluator in the chain, no limit is needed; without one, the smallest wins and it is said."""
    cheap = done("search", *JOINT, "evaluator=tiled_published", "hydra.run.dir=cheap")
    assert "the smallest network wins" in cheap.stderr
    smallest = {"net.width": 0.5, "net.depth_3": 1, "net.weight_bits": 4}
    assert best(cimopt, "cheap")["design"].items() >= smallest.items()
    rewarding = "objective.product={energy_j: 1, latency_s: 1, area_mm2: 1, accuracy: -200}"
    arguments = (*JOINT, "evaluator=[tiled_published,guess]", "objective=edap_accuracy", rewarding)
    accurate = done("search", *arguments, "hydra.run.dir=a")
    assert "smallest" not in accurate.stderr
    done("enumerate", *arguments, "hydra.run.dir=e")
    assert best(cimopt, "a")["design"] == cimopt.result("e")["optimum"]["design"]
    assert best(cimopt, "a")["design"]["net.width"] > 0.5


def test_more_than_1e20_designs(cimopt, done):
    few = ("sampler.settings.start=40", "sampler.settings.pool=60", "sampler.stop_after=3")
    done("search", "experiment=network_search", *QUIET, *few, "hydra.run.dir=a")
    result = cimopt.result("a")
    assert result["space_size"] > 10**23
    assert result["n_evaluated"] == 40 + 3 * 40
    done("search", "experiment=network_search", *QUIET, *few, "hydra.run.dir=b")
    assert cimopt.result("b")["top"] == result["top"]


def test_parameters_can_be_fixed_given_and_searched_in_turn(cimopt, done):
    done("search", *JOINT, *LIMITED, "space.fix.net.width=1.0", "sampler.stop_after=0", "hydra.run.dir=f")
    assert cimopt.result("f")["space_size"] == 1200 * 4
    assert {one["design"]["net.width"] for one in cimopt.result("f")["top"]} == {1.0}
    levels = ("search=sequential", "search.levels=[architecture,network]", "search.start_values.net.width=0.75")
    done("search", *JOINT, *LIMITED, *levels, "hydra.run.dir=q")
    assert [step["level"] for step in cimopt.result("q")["levels"]] == ["architecture", "network"]


def test_designs_name_their_network(cimopt, done):
    """In one design by `design.net.width`, in a table by a column; values need not be choices of the space."""
    chip = {
        "v_op": 0.7, "bits_per_cell": 2, "t_cycle_ns": 4, "xbar_rows": 256, "xbar_cols": 256, "router_groups": 16,
        "tiles_per_router": 32, "macros_per_tile": 32, "glb_mb": 4,
    }  # fmt: skip
    net = {"net.width": 0.6, "net.depth_3": 2, "net.weight_bits": 5}
    common = ("space=rram", "workload=[alexnet]", NET, "evaluator=tiled_published", "objective.area_max_mm2=null")
    done("evaluate", *common, *(f"design.{k}={v}" for k, v in (chip | net).items()), "hydra.run.dir=v")
    names, values = zip(*(chip | net).items(), strict=True)
    (cimopt.folder / "d.csv").write_text(",".join(names) + "\n" + ",".join(map(str, values)) + "\n")
    done("evaluate", *common, "designs=d.csv", "out=o.parquet")
    table = pq.read_table(cimopt.folder / "o.parquet").to_pylist()
    assert [row["workload"] for row in table] == ["alexnet", "net"]
    for row in table:
        assert row["energy_j"] == pytest.approx(cimopt.result("v")["metrics"][row["workload"]]["energy_j"], rel=1e-12)
    refused = cimopt("evaluate", *common, *(f"design.{k}={v}" for k, v in chip.items()), "design.net.widht=1")
    assert refused.returncode == 2
    assert refused.stderr.count("net.width") == 2, "named as the nearest one, and once among the known ones"


def test_a_plug_ins_network_with_parameters(cimopt, done, with_stranger):
    done(
        "search", "space=rram_small", "workload=[]", "workload.mlp={params: {depth: 3}, search: {hidden: [32, 64, 128]}}",
        "evaluator=[tiled_published,network_size]", "objective.limits.network_weights={min: 60000}", *QUIET, "hydra.run.dir=a",
    )  # fmt: skip
    design, metrics = best(cimopt, "a")["design"], best(cimopt, "a")["metrics"]["mlp"]
    assert design["mlp.hidden"] == 128
    assert metrics["network_weights"] == 784 * 128 + 2 * 128 * 128 + 128 * 10


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("space.fix.net.width=0.6", "space.fix.net.width=0.6 is not a choice (allowed: 0.5, 0.75, 1.0)"),
        ("space.fix.net.widht=0.5", "did you mean 'net.width'"),
        ("workload.net.search.width=[0.5,-1]", "workload.net.search.width=-1 must be a number in 0.1..8"),
        ("workload.net.params.width=1.0", "width stands in params and in search"),
        ("workload.resnet18.search.width=[0.5]", "'width' is a parameter of a family"),
        ("space.rules.r={product: [net.kind], max: 3}", "did you mean 'net.width'"),
    ],
)
def test_wrong_networks_are_one_sentence(cimopt, override, words):
    refused = cimopt("search", *JOINT, "evaluator=tiled_published", override, "hydra.run.dir=a")
    assert refused.returncode == 2
    assert words in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


VIT = "workload.net={family: vit, search: {width: [100, 192], heads: [7, 3], depth: [1, 2]}}"


@pytest.mark.parametrize("sampler", ["four_phase", "random", "pymoo_ga"])
def test_what_makes_no_network_is_never_evaluated(cimopt, done, sampler):
    """Our sampler never proposes such a design; others' do, and it is an error of that design with its reason."""
    few = ("sampler.settings.start=60", "sampler.settings.pool=100") if sampler == "four_phase" else ()
    done(
        "search", "space=rram_small", "workload=[]", VIT, "evaluator=tiled_published", "objective.area_max_mm2=null",
        f"sampler={sampler}", *few, "sampler.stop_after=3", *QUIET, "hydra.run.dir=a",
    )  # fmt: skip
    trials = pq.read_table(cimopt.folder / "a" / "trials.parquet").to_pylist()
    legal = [t["net.width"] % t["net.heads"] == 0 for t in trials]
    if sampler == "four_phase":
        assert all(legal)
    assert not any(t["feasible"] for t, ok in zip(trials, legal, strict=True) if not ok)
    assert {t["reason"][:20] for t, ok in zip(trials, legal, strict=True) if not ok} <= {"refused by the space"}
    assert any(t["feasible"] for t in trials)


def test_a_finished_run_of_a_searched_network_is_continued_not_repeated(cimopt, done):
    for _ in range(2):
        done("search", *JOINT, "evaluator=tiled_published", "sampler.stop_after=1", "hydra.run.dir=a")
    first = cimopt.result("a")["top"]
    done("search", *JOINT, "evaluator=tiled_published", "sampler.stop_after=2", "hydra.run.dir=a")
    assert cimopt.result("a")["n_evaluated"] == 500 + 2 * 40
    assert cimopt.result("a")["top"][0]["score"] <= first[0]["score"]
    refused = cimopt("search", *JOINT, "workload.net.params.kernel=5", "evaluator=tiled_published", "hydra.run.dir=a")
    assert refused.returncode == 2
    assert "workload.net.params.kernel: None -> 5" in refused.stderr


def test_a_plug_ins_network_that_cannot_be_built_is_a_sentence(cimopt, with_stranger):
    refused = cimopt("search", "workload=[]", "workload.mlp={params: {hidden: 7}}", *QUIET)
    assert refused.returncode == 2
    assert "workload.mlp: no network comes of these parameters: hidden must be even" in refused.stderr
    searched = cimopt(
        "search", "space=rram_small", "workload=[]", "workload.mlp={search: {hidden: [7, 8, 9]}}", "evaluator=tiled_published",
        "sampler.stop_after=0", *QUIET, "hydra.run.dir=a",
    )  # fmt: skip
    assert searched.returncode == 0, searched.stderr
    assert {one["design"]["mlp.hidden"] for one in cimopt.result("a")["top"]} == {8}
