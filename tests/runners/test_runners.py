"""Every runner passes the kit; Ray's workers may die, hang or not be reachable."""

import os
import threading
import time

import pytest

from cimopt.errors import InputError
from cimopt.runners.auto import RAY_PAYS_S, AutoRunner
from cimopt.runners.base import WorkerFailure
from cimopt.runners.ray import RayRunner
from cimopt.runners.serial import SerialRunner
from cimopt.testing import RunnerContract


@pytest.fixture(scope="module", autouse=True)
def one_ray():
    """One local Ray for all tests of this file: starting it takes seconds."""
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
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
