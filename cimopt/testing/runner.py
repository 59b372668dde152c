"""The kit every runner passes."""

from __future__ import annotations

import pytest

from cimopt.runners.base import Function, Runner


class Doubler:
    """Built in the worker: doubles numbers, and fails on a word."""

    def __call__(self) -> Function:
        def double(item: int) -> int:
            if isinstance(item, str):
                raise ValueError(f"no number: {item}")
            return 2 * item

        return double


class RunnerContract:
    """Subclass and write `make()`, which gives a fresh runner."""

    def make(self) -> Runner:
        raise NotImplementedError

    @pytest.fixture
    def runner(self):
        with self.make() as runner:
            runner.start(Doubler())
            yield runner

    def test_every_item_once(self, runner: Runner) -> None:
        got = list(runner.map(list(range(17))))
        assert sorted(got) == [(i, 2 * i) for i in range(17)]

    def test_can_be_used_again(self, runner: Runner) -> None:
        assert dict(runner.map([1, 2])) == {0: 2, 1: 4}
        assert dict(runner.map([5])) == {0: 10}

    def test_nothing_to_do(self, runner: Runner) -> None:
        assert list(runner.map([])) == []

    def test_an_exception_is_not_swallowed(self, runner: Runner) -> None:
        with pytest.raises(ValueError, match="no number"):
            list(runner.map([1, "two"]))
        assert dict(runner.map([3])) == {0: 6}, "the runner is usable after an exception"

    def test_has_workers(self, runner: Runner) -> None:
        assert runner.workers >= 1

    def test_close_twice(self) -> None:
        runner = self.make()
        runner.start(Doubler())
        runner.close()
        runner.close()
