"""Every runner passes the kit; Ray's workers may die, hang or not be reachable."""

import os
import sys
import threading
import time
import types

import pytest

from cimopt.errors import InputError
from cimopt.runners.auto import RAY_PAYS_S, AutoRunner
from cimopt.runners.base import WorkerFailure
from cimopt.runners.ray import RayRunner
from cimopt.runners.ray_setup import Resources
from cimopt.runners.serial import SerialRunner
from cimopt.testing import RunnerContract


@pytest.fixture(scope="module", autouse=True)
def one_ray():
    """One local Ray for all tests of this file: starting it takes seconds."""
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield ray
    ray.shutdown()


class TestSerial(RunnerContract):
    def make(self):
        return SerialRunner()


class TestRay(RunnerContract):
    def make(self):
        return RayRunner(2)


class TestAuto(RunnerContract):
    def make(self):
        return AutoRunner(lambda: RayRunner(2), size=lambda item: 1)


def test_auto_moves_slow_work_to_ray(tmp_path):
    marks = str(tmp_path / "pids")

    def make():
        def slow(item):
            time.sleep(2 * RAY_PAYS_S)
            with open(marks, "a") as file:
                file.write(f"{os.getpid()}\n")
            return item

        return slow

    with AutoRunner(lambda: RayRunner(2), size=lambda item: 1) as runner:
        runner.start(make)
        assert sorted(runner.map(list(range(8)))) == [(i, i) for i in range(8)]
        assert runner.workers == 2
    pids = (tmp_path / "pids").read_text().split()
    assert pids[:2] == [str(os.getpid())] * 2, "the first items are measured here"
    assert str(os.getpid()) not in pids[2:]


def test_auto_keeps_fast_work_here():
    def never():
        raise AssertionError("Ray was started for fast work")

    with AutoRunner(never, size=lambda item: 1) as runner:
        runner.start(lambda: lambda item: os.getpid())
        assert {pid for _, pid in runner.map(list(range(20)))} == {os.getpid()}


def test_a_killed_worker_is_replaced_and_its_item_tried_again(tmp_path):
    """Case D1: nothing is lost and nothing counted twice."""
    mark = tmp_path / "killed"

    def make():
        def work(item):
            if item == 5 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), 9)
            return item * item

        return work

    with RayRunner(2, max_retries=1) as runner:
        runner.start(make)
        assert sorted(runner.map(list(range(16)))) == [(i, i * i) for i in range(16)]
    assert mark.exists()


def test_an_item_that_always_kills_its_worker_fails_alone():
    def make():
        def work(item):
            if item == 3:
                os.kill(os.getpid(), 9)
            return item

        return work

    with RayRunner(2, max_retries=1) as runner:
        runner.start(make)
        got = dict(runner.map(list(range(6))))
    assert isinstance(got[3], WorkerFailure)
    assert "worker died 2 times" in got[3].reason
    assert {i: got[i] for i in (0, 1, 2, 4, 5)} == {0: 0, 1: 1, 2: 2, 4: 4, 5: 5}


def test_an_item_over_its_time_limit_fails_alone():
    def make():
        def work(item):
            time.sleep(60 if item == 1 else 0)
            return item

        return work

    with RayRunner(2, timeout_s=2) as runner:
        runner.start(make)
        got = dict(runner.map([0, 1, 2]))
    assert got[0] == 0
    assert got[2] == 2
    assert got[1] == WorkerFailure("no answer within 2 s")


class HoldsALock:
    """Cannot be pickled, and says where."""

    def __init__(self):
        self.settings = {"a": 1}
        self.guard = threading.Lock()

    def __call__(self):
        return lambda item: item


def test_what_cannot_be_sent_is_named():
    """Case D2."""
    with (
        RayRunner(1) as runner,
        pytest.raises(InputError, match=r"HoldsALock\.guard \(lock\) cannot be sent to Ray workers"),
    ):
        runner.start(HoldsALock())


def test_a_worker_that_cannot_build_ends_with_its_reason():
    def make():
        raise FileNotFoundError("tables are not installed here")

    with (
        RayRunner(1) as runner,
        pytest.raises(InputError, match=r"cannot build the evaluator.*tables are not installed"),
    ):
        runner.start(make)


def test_an_initialised_ray_is_left_running(one_ray):
    runner = RayRunner(1)
    runner.start(lambda: lambda item: item)
    runner.close()
    assert one_ray.is_initialized()


# ------------------------------------------------------------ limits, stragglers, resources
def test_a_chunks_limit_grows_with_its_designs():
    def make():
        def work(item):
            time.sleep(1.2)
            return item

        return work

    with RayRunner(2, timeout_s=0.5, size=lambda item: item) as runner:
        runner.start(make)
        got = dict(runner.map([8, 1]))
    assert got == {0: 8, 1: WorkerFailure("no answer within 0.5 s")}


def test_after_a_timeout_a_chunks_designs_are_tried_singly():
    """One design that hangs costs itself, not its chunk."""
    from cimopt.evaluators.wrappers import Spread

    spread = Spread(*_chunks_of_a_hanging_model(), chunk=4)
    with spread._runner as runner:
        runner.start(_Recipe())
        told = []
        spread.on_result = lambda rows, metrics: told.extend(rows.tolist())
        metrics = spread.evaluate(_designs(8), (_workload(),))
    assert sorted(told) == list(range(8)), "each design is told once"
    assert [metrics.outcome(i).state for i in range(8)] == ["ok"] * 5 + ["error"] + ["ok"] * 2
    assert metrics.outcome(5).reason == "no answer within 1 s"


def _workload():
    from cimopt.types import Layer, Workload

    return Workload("w", (Layer("a", "linear", 4, 4),))


def _parameters():
    from cimopt.types import Parameter, ParameterSet

    return ParameterSet((Parameter("k", tuple(range(8))),))


def _designs(n):
    import numpy as np

    from cimopt.types import Designs

    return Designs(_parameters(), np.arange(n)[:, None])


class _Recipe:
    def __call__(self):
        from cimopt.types import Metrics

        def evaluate(item):
            genes, _ = item
            if 5 in genes:
                time.sleep(60)
            return Metrics({"energy_j": genes[:, 0] + 1.0}, ("w",)), 0.01

        return evaluate


def _chunks_of_a_hanging_model():
    from cimopt.evaluators.one_by_one import OneByOneEvaluator

    class Named(OneByOneEvaluator):
        name, version, requires, provides = "named", "1", ("k",), ("energy_j",)

        def evaluate_one(self, design, workload):
            raise AssertionError("only workers evaluate")

    return Named(), RayRunner(2, timeout_s=1, size=lambda item: len(item[0]))


def test_a_straggler_is_given_to_an_idle_worker_and_counts_once(tmp_path):
    mark = tmp_path / "first"

    def make():
        def work(item):
            if item == 3 and not mark.exists():
                mark.touch()
                time.sleep(60)
            time.sleep(0.05)
            return item

        return work

    with RayRunner(2, reissue_factor=4) as runner:
        runner.start(make)
        began = time.monotonic()
        got = list(runner.map(list(range(10))))
        assert time.monotonic() - began < 20
        assert sorted(got) == [(i, i) for i in range(10)]
        assert sorted(runner.map([1, 2])) == [(0, 1), (1, 2)], "the runner is whole again"


def test_resources_no_node_has_are_named():
    with (
        RayRunner(1, resources=Resources(num_gpus=2)) as runner,
        pytest.raises(
            InputError, match=r"runner.num_gpus=2: no node of the Ray cluster is that large \(largest: 2 CPU, 0 GPU\)"
        ),
    ):
        runner.start(lambda: lambda item: item)


def test_workers_follow_from_what_one_holds():
    with RayRunner(resources=Resources(num_cpus=2)) as runner:
        runner.start(lambda: lambda item: item)
        assert runner.workers == 1
    with RayRunner(resources=Resources(num_cpus=0.5)) as runner:
        runner.start(lambda: lambda item: item)
        assert runner.workers == 4
        assert sorted(runner.map([1, 2, 3])) == [(0, 1), (1, 2), (2, 3)]


def test_nodes_that_join_later_get_workers(one_ray, monkeypatch):
    monkeypatch.setattr("cimopt.runners.ray.GROW_S", 0.0)
    nodes = one_ray.nodes()
    small = [{**node, "Resources": {"CPU": 1.0}} for node in nodes]
    with RayRunner() as runner:
        monkeypatch.setattr(one_ray, "nodes", lambda: small)
        runner.start(lambda: lambda item: (time.sleep(0.05), os.getpid())[1])
        assert runner.workers == 1
        assert len({pid for _, pid in runner.map(range(4))}) == 1
        monkeypatch.setattr(one_ray, "nodes", lambda: nodes)
        seen, until = set(), time.monotonic() + 120
        while len(seen) < 2 and time.monotonic() < until:
            seen |= {pid for _, pid in runner.map(range(8))}
        assert len(seen) == 2


def test_a_plug_in_that_workers_lack_is_named():
    """A module only the driver has, as with a plug-in that is not installed on a node."""
    module = types.ModuleType("only_on_the_driver")
    exec("class Model:\n    def __call__(self):\n        return lambda item: item\n", module.__dict__)
    module.Model.__module__ = module.__name__
    sys.modules[module.__name__] = module
    try:
        with (
            RayRunner(1) as runner,
            pytest.raises(
                InputError, match=r"No module named 'only_on_the_driver'; install the same cimopt and plug-ins"
            ),
        ):
            runner.start(module.Model())
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize("cost_s", [1e-6, 1e-3, 0.03, 0.5, 60.0])
def test_chunks_fit_the_cost_from_microseconds_to_minutes(cost_s):
    """Each task is at least 0.1 s of work where there is that much, and no worker is left without."""
    sizes = []

    class Clockwork:
        workers = 4

        def map(self, items):
            from cimopt.types import Metrics

            for index, (genes, _) in enumerate(items):
                sizes.append(len(genes))
                yield index, (Metrics({"energy_j": genes[:, 0] + 1.0}, ("w",)), cost_s * len(genes))

    from cimopt.evaluators.wrappers import Spread

    model, _ = _chunks_of_a_hanging_model()
    spread = Spread(model, Clockwork(), probe=True)
    many = _designs(8).take([k % 8 for k in range(400)])
    spread.evaluate(many, (_workload(),))
    assert sizes[:4] == [1] * 4, "unknown cost: single designs first"
    expected = min(max(int(0.1 / cost_s), 1), 99)
    assert sizes[4] == expected
    assert sum(sizes) == 400
