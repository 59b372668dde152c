"""The contract's base class, chains, wrappers, stages and the one-by-one helper."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt.errors import ContractError, InputError
from cimopt.evaluators import Cached, Chain, Evaluator, Guarded, Infeasible, OneByOneEvaluator, Spread, Stage, names
from cimopt.evaluators.stages import KeyIndex
from cimopt.runners.serial import SerialRunner
from cimopt.space import SearchSpace
from cimopt.testing import space_named
from cimopt.types import Layer, Metrics, Parameter, ParameterSet, Workload

SPACE = SearchSpace(
    "s", ParameterSet((Parameter("a", (1, 2, 3, 4)), Parameter("b", (10, 20, 30)), Parameter("c", (0, 1))))
)
NETS = tuple(Workload(n, (Layer("l", "linear", 2, k),)) for n, k in (("one", 1), ("two", 2)))


def every():
    return SPACE.designs(np.concatenate(list(SPACE.enumerate())))


class Area(Evaluator):
    name, version = "area", "1"
    requires, provides = ("a", "b"), ("area_mm2",)

    def evaluate(self, designs, workloads, detail="totals"):
        return Metrics({"area_mm2": designs["a"] * designs["b"] * 1.0}, names(workloads))


class Cost(Evaluator):
    name, version = "cost", "1"
    requires, provides = ("area_mm2",), ("cost",)

    def evaluate(self, designs, workloads, detail="totals"):
        return Metrics({"cost": 2 * designs["area_mm2"]}, names(workloads))


class Returns(Evaluator):
    """Gives whatever the test wants."""

    name, version, provides = "returns", "1", ("x",)

    def __init__(self, metrics):
        self.metrics = metrics

    def evaluate(self, designs, workloads, detail="totals"):
        return self.metrics


W = names(NETS)


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (Metrics({"x": np.ones(5)}, W, np.zeros(24, np.int16)), r"shape \(5,\)"),
        (Metrics({"x": np.full(24, np.nan)}, W), "not finite in a row without a reason"),
        (Metrics({"x": np.ones(24)}, W, np.ones(24, np.int16), ("ok", "no")), "must be NaN there"),
        (Metrics({"x": np.full(24, np.inf)}, W), "not finite"),
        (Metrics({"y": np.ones(24)}, W), "promises 'x'"),
        (Metrics({"x": np.ones(24)}, ("other",)), "answered for workloads"),
        (Metrics({"x": np.ones(24)}, W, np.full(24, 3, np.int16)), "has no text"),
        (Metrics({"x": np.ones(24)}, W, np.zeros(24, np.int64)), "must be int16"),
        (Metrics({"x": np.ones(24)}, W, violations={"v": np.full(24, np.nan)}), "without NaN"),
    ],
)
def test_broken_contracts_are_named(metrics, words):
    with pytest.raises(ContractError, match=words):
        Returns(metrics).evaluate(every(), NETS)


def test_wrong_calls_are_named():
    with pytest.raises(InputError, match="unknown detail 'layer'; did you mean 'layers'"):
        Area().evaluate(every(), NETS, "layer")
    with pytest.raises(InputError, match="unknown input of evaluator 'cost' 'area_mm2'"):
        Cost().evaluate(every(), NETS)


def test_chain_orders_by_needs_and_passes_metrics_on():
    chain = Chain([Cost(), Area()], SPACE.names)
    assert [e.name for e in chain.evaluators] == ["area", "cost"]
    assert chain.requires == ("a", "b")
    metrics = chain.evaluate(every(), NETS)
    assert np.array_equal(metrics.values["cost"], 2 * metrics.values["area_mm2"])


def test_chain_refuses_unmet_needs_and_doubles_before_running():
    with pytest.raises(InputError, match="evaluator 'cost' needs 'area_mm2'"):
        Chain([Cost()], SPACE.names)
    with pytest.raises(InputError, match="both give 'area_mm2'"):
        Chain([Area(), Area()], SPACE.names)
    with pytest.raises(InputError, match="no evaluator is chosen"):
        Chain([], SPACE.names)


class Picky(Evaluator):
    """Infeasible where c is 1; broken where a is 4."""

    name, version = "picky", "1"
    requires, provides = ("a", "c"), ("energy_j",)

    def evaluate(self, designs, workloads, detail="totals"):
        if (designs["a"] == 4).any():
            raise RuntimeError("mapper  failed\non line 2")
        bad = designs["c"] == 1
        energy = np.where(bad[:, None], np.nan, designs["a"][:, None] * np.ones((1, len(workloads))))
        return Metrics(
            {"energy_j": energy}, names(workloads), bad.astype(np.int16), ("ok", "too small"), {"size": bad * 0.5}
        )


def test_one_bad_design_costs_only_itself():
    """Case M12: a crash is that design's reason; others keep their results."""
    metrics = Guarded(Chain([Picky(), Area()], SPACE.names)).evaluate(every(), NETS)
    states = [metrics.outcome(i) for i in range(24)]
    a, c = every()["a"], every()["c"]
    for i, outcome in enumerate(states):
        if a[i] == 4:
            assert (outcome.state, outcome.reason) == ("error", "RuntimeError: mapper failed on line 2")
        elif c[i] == 1:
            assert outcome.state == "infeasible"
            assert outcome.amounts == {"size": 0.5}
        else:
            assert outcome.state == "ok"
    assert np.isnan(metrics.values["area_mm2"][~metrics.ok]).all(), "a design with a reason has no metrics at all"


def test_set_up_faults_still_stop():
    with pytest.raises(ContractError):
        Guarded(Returns(Metrics({"y": np.ones(24)}, W))).evaluate(every(), NETS)


class Slow(OneByOneEvaluator):
    name, version = "slow", "1"
    requires, provides = ("a", "c"), ("energy_j", "area_mm2")

    def __init__(self):
        self.calls = 0

    def evaluate_one(self, design, workload):
        self.calls += 1
        assert type(design["a"]) is int
        if design["a"] == 3:
            raise Infeasible("too tall", height=0.25)
        if design["a"] == 4:
            return {"energy_j": float("nan"), "area_mm2": 1.0}
        return {"energy_j": design["a"] * workload.macs, "area_mm2": 7.0}


def test_one_by_one():
    metrics = Slow().evaluate(every(), NETS)
    assert metrics.values["energy_j"].shape == (24, 2)
    assert metrics.values["area_mm2"].shape == (24,)
    by_a = {int(a): metrics.outcome(i) for i, a in enumerate(every()["a"])}
    assert by_a[1].state == "ok"
    assert (by_a[3].state, by_a[3].reason, by_a[3].amounts) == ("infeasible", "too tall", {"height": 0.25})
    assert (by_a[4].state, by_a[4].reason) == ("error", "energy_j is not finite")


def test_cache_pays_each_design_once_and_survives_on_disk(tmp_path):
    slow = Slow()
    cached = Cached(slow, tmp_path)
    first = cached.evaluate(every(), NETS)
    # 24 designs are 8 distinct (a, c) pairs; a=3 stops at its first workload, errors are asked again.
    assert slow.calls == 2 * 6 + 2
    again = cached.evaluate(every(), NETS)
    assert slow.calls == 2 * 6 + 2 + 4, "only the two errors (a=4) are asked again"
    other = Slow()
    reopened = Cached(other, tmp_path).evaluate(every(), NETS)
    assert other.calls == 4
    for metrics in (again, reopened):
        np.testing.assert_array_equal(metrics.values["energy_j"], first.values["energy_j"])
        assert [metrics.outcome(i) for i in range(24)] == [first.outcome(i) for i in range(24)]


def test_cache_skips_a_torn_line(tmp_path):
    Cached(Slow(), tmp_path).evaluate(every(), NETS)
    path = next(tmp_path.iterdir())
    path.write_text(path.read_text()[:-20])
    slow = Slow()
    Cached(slow, tmp_path).evaluate(every(), NETS)
    assert 0 < slow.calls - 4 <= 2


def test_other_settings_do_not_share_a_cache(tmp_path):
    class Newer(Slow):
        version = "2"

    Cached(Slow(), tmp_path).evaluate(every(), NETS)
    newer = Newer()
    Cached(newer, tmp_path).evaluate(every(), NETS)
    assert newer.calls == 2 * 6 + 2


class Staged(Evaluator):
    """Counts how often its stages compute."""

    name, version = "staged", "1"
    requires, provides = ("a", "b"), ("x",)
    stages = (Stage("rows", ("a",)), Stage("cols", ("b",)))

    def __init__(self):
        self.computed = []

    def stage_rows(self, params, workloads):
        self.computed += params["a"].tolist()
        return {"r": params["a"] ** 2.0}

    def stage_cols(self, params, workloads):
        return {"c": np.stack([params["b"], -params["b"]], axis=1)}

    def combine(self, tables, designs, workloads, detail):
        return Metrics({"x": tables["rows"].gather("r") + tables["cols"].gather("c")[:, 0]}, names(workloads))


def test_stages_compute_each_combination_once():
    staged = Staged()
    metrics = staged.evaluate(every(), NETS)
    assert np.array_equal(metrics.values["x"], every()["a"] ** 2.0 + every()["b"])
    staged.evaluate(every().take(slice(3, 9)), NETS)
    assert sorted(staged.computed) == [1, 2, 3, 4]
    travelled = pickle.loads(pickle.dumps(staged))
    assert np.array_equal(travelled.evaluate(every(), NETS).values["x"], metrics.values["x"])


def test_stages_of_a_dependent_parameter_follow_its_parent():
    space = SearchSpace(
        "d", ParameterSet((Parameter("b", (5, 6)), Parameter("a", depends_on="b", by_parent=((1, 2), (3, 4)))))
    )
    designs = space.designs(np.concatenate(list(space.enumerate())))
    assert Staged().evaluate(designs, NETS).values["x"].tolist() == [1 + 5, 4 + 5, 9 + 6, 16 + 6]


def test_spread_keeps_order_and_retries_lost_chunks_singly():
    class Loses(SerialRunner):
        lost = 0

        def map(self, items):
            for index, result in super().map(items):
                if len(items[index][0]) > 1 and self.lost == 0:
                    self.lost += 1
                    yield index, type("Lost", (), {"reason": "worker died"})()
                else:
                    yield index, result

    with Loses() as runner:
        runner.start(lambda: lambda item: (Area().evaluate(SPACE.designs(item[0]), NETS), 0.001))
        metrics = Spread(Area(), runner, chunk=5).evaluate(every(), NETS)
    assert runner.lost == 1
    assert np.array_equal(metrics.values["area_mm2"], every()["a"] * every()["b"])


class Kept(Staged):
    name, keep_stages = "kept", True


def test_large_stage_tables_are_kept_on_disk(tmp_path, monkeypatch):
    from cimopt.evaluators import stage_cache

    monkeypatch.setenv("CIMOPT_CACHE", str(tmp_path))
    monkeypatch.setattr(stage_cache, "SAVE_ROWS", 4)
    first = Kept()
    metrics = first.evaluate(every(), NETS)
    assert first.computed == [1, 2, 3, 4]
    files = sorted(p.name.split("-")[1] for p in (tmp_path / "stages").glob("*.npz"))
    assert files == ["rows"], "three columns are below the limit, four rows are not"
    later = Kept()
    assert np.array_equal(later.evaluate(every(), NETS).values["x"], metrics.values["x"])
    assert later.computed == [], "a later process finds the rows"
    part = Kept()
    part.evaluate(every().take(slice(0, 2)), NETS)
    assert part.computed == []


def test_kept_tables_follow_code_and_version(tmp_path, monkeypatch):
    from cimopt.evaluators import stage_cache

    class Newer(Kept):
        version = "2"

    monkeypatch.setenv("CIMOPT_CACHE", str(tmp_path))
    monkeypatch.setattr(stage_cache, "SAVE_ROWS", 4)
    Kept().evaluate(every(), NETS)
    newer = Newer()
    newer.evaluate(every(), NETS)
    assert newer.computed == [1, 2, 3, 4]
    monkeypatch.setattr(stage_cache, "code_of", lambda *_: "edited")
    edited = Kept()
    edited.evaluate(every(), NETS)
    assert edited.computed == [1, 2, 3, 4]


def test_a_broken_or_unwritable_cache_is_no_error(tmp_path, monkeypatch):
    from cimopt.evaluators import stage_cache

    monkeypatch.setenv("CIMOPT_CACHE", str(tmp_path))
    monkeypatch.setattr(stage_cache, "SAVE_ROWS", 4)
    Kept().evaluate(every(), NETS)
    for path in (tmp_path / "stages").iterdir():
        path.write_bytes(path.read_bytes()[:40])
    torn = Kept()
    torn.evaluate(every(), NETS)
    assert torn.computed == [1, 2, 3, 4]
    blocked = tmp_path / "a_file"
    blocked.touch()
    monkeypatch.setenv("CIMOPT_CACHE", str(blocked))
    Kept().evaluate(every(), NETS)


@given(
    size=st.sampled_from([1, 7, 500, 100_000]),
    batches=st.lists(st.lists(st.integers(0, 99_999), min_size=1, max_size=30), min_size=1, max_size=12),
)
@settings(deadline=None)
def test_rows_of_keys_are_found_while_few_and_when_many(size, batches):
    """The index gives what a dictionary would, before and after it becomes a direct one."""
    index, known = KeyIndex(size), {}
    for batch in batches:
        keys = np.array([k % size for k in batch])
        assert index.rows(keys).tolist() == [known.get(int(k), -1) for k in keys]
        new = np.array(sorted({int(k) for k in keys} - known.keys()), dtype=np.int64)
        index.add(new, len(known))
        known |= {int(k): len(known) + i for i, k in enumerate(new)}
        assert index.rows(keys).tolist() == [known[int(k)] for k in keys]
    assert index.keys.tolist() == list(known)


class Counting(Evaluator):
    """One stage per network, one for all of them; counts how many rows each computed."""

    name, version = "counting", "1"
    requires, provides = ("xbar_rows", "xbar_cols"), ("energy_j",)
    stages = (Stage("net", reads=("xbar_rows",)), Stage("array", reads=("xbar_cols",), per_network=False))

    def __init__(self):
        self.computed = {"net": 0, "array": 0}

    def stage_net(self, params, workloads):
        self.computed["net"] += len(params["xbar_rows"])
        return {"macs": np.array([[w.macs for w in workloads]] * len(params["xbar_rows"]), dtype=float)}

    def stage_array(self, params, workloads):
        self.computed["array"] += len(params["xbar_cols"])
        return {"columns": params["xbar_cols"].astype(float)}

    def combine(self, tables, designs, workloads, detail):
        energy = tables["net"].gather("macs") * tables["array"].gather("columns")[:, None]
        return Metrics({"energy_j": energy}, names(workloads))


def test_stages_that_see_no_network_are_computed_once_for_all():
    space, model = space_named("rram"), Counting()
    designs = space.designs(space.sample(200, np.random.default_rng(1)))
    per_call = {stage: len(np.unique(designs[p])) for stage, p in (("net", "xbar_rows"), ("array", "xbar_cols"))}
    for macs in (1, 2, 3):
        net = (Workload("w", (Layer("fc", "linear", 1, macs),)),)
        metrics = model.evaluate(designs, net)
        assert np.array_equal(metrics.values["energy_j"][:, 0], macs * designs["xbar_cols"])
    assert model.computed == {"net": 3 * per_call["net"], "array": per_call["array"]}
