"""Dataflows: golden makespans, laws of a queue, and equal results in both forms."""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_zeroskip import simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt.errors import InputError

JOBS = [64, 88, 64, 64, 80, 88, 1024]
cases = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 5), st.integers(1, 50))


def _times(seed: int, patches: int, blocks: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(8, 129, (patches, blocks)) * 8


def _naive(times: np.ndarray, copies: int) -> int:
    """Every job in order to the copy that is free first."""
    free = [0] * copies
    for time in times:
        free.sort()
        free[0] += int(time)
    return max(free)


@pytest.mark.parametrize(("jobs", "cycles"), [(JOBS, 1232), ([1024, 88, 80, 64, 64, 88, 64], 1024)])
def test_patches_are_served_in_order(jobs, cycles):
    """Golden: the authors' simulator, a long job last or first on two copies."""
    run = simulate(np.array(jobs)[:, None], [2], dataflow="block", arrays_per_block=1)
    assert (run.cycles, run.busy, run.stall) == (cycles, sum(jobs), 2 * cycles - sum(jobs))


@settings(max_examples=80, deadline=None)
@given(cases)
def test_laws_of_one_layer(case):
    seed, patches, blocks, copies = case
    times = _times(seed, patches, blocks)
    layer = simulate(times, copies, dataflow="layer", arrays_per_block=3)
    block = simulate(times, [copies] * blocks, dataflow="block", arrays_per_block=3)
    slowest = times.max(axis=1)
    total, most = int(slowest.sum()), int(slowest.max())
    assert layer.cycles == _naive(slowest, copies)
    assert block.cycles == max(_naive(times[:, b], copies) for b in range(blocks))
    assert most <= layer.cycles
    assert total <= copies * layer.cycles <= total + (copies - 1) * most
    assert block.cycles <= layer.cycles
    assert layer.busy == block.busy == 3 * times.sum()
    for run in (layer, block):
        assert run.arrays == 3 * copies * blocks
        assert run.busy + run.stall == run.arrays * run.cycles
        assert run.stall >= 0


@settings(max_examples=60, deadline=None)
@given(cases)
def test_more_copies_or_shorter_operations_never_take_longer(case):
    seed, patches, blocks, copies = case
    times = _times(seed, patches, blocks)
    for dataflow in ("layer", "block"):

        def cycles(given, d, dataflow=dataflow):
            return simulate(given, d if dataflow == "layer" else [d] * blocks, dataflow=dataflow).cycles

        assert cycles(times, copies + 1) <= cycles(times, copies)
        shorter = np.maximum(times - np.random.default_rng(seed).integers(0, 60, times.shape), 0)
        assert cycles(shorter, copies) <= cycles(times, copies)


@settings(max_examples=50, deadline=None)
@given(cases)
def test_both_forms_agree(case):
    seed, patches, blocks, copies = case
    times = _times(seed, patches, blocks)
    many = np.random.default_rng(seed).integers(1, copies + 1, blocks)
    for given_, dataflow in ((copies, "layer"), (many, "block")):
        fast, slow = (simulate(times, given_, dataflow=dataflow, compiled=c) for c in (True, False))
        assert (fast.cycles, fast.busy, fast.stall) == (slow.cycles, slow.busy, slow.stall)
        assert fast.block_cycles.tolist() == slow.block_cycles.tolist()


@pytest.mark.parametrize("copies", [2, 5, 16, 17, 100, 1499])
@pytest.mark.parametrize("top", [2, 1024, 100_000])
def test_both_ways_of_queueing_agree_on_long_queues(copies, top):
    """Short operations on many copies are counted in buckets, others kept in a heap; operations of 0 cycles too."""
    times = np.random.default_rng(top).integers(0, top, (1500, 1))
    fast, slow = (simulate(times, [copies], dataflow="block", compiled=c) for c in (True, False))
    assert fast.cycles == slow.cycles


def test_as_many_copies_as_patches_take_one_operation():
    times = _times(1, 20, 3)
    for copies in (20, 21, 1000):
        assert simulate(times, copies, dataflow="layer").cycles == times.max()


def test_a_tail_costs_less_without_the_barrier():
    """Golden: three blocks, each slow on another patch; the barrier pays every tail."""
    times = np.where(np.eye(3, dtype=bool), 1024, 64)
    assert simulate(times, 1, dataflow="layer").cycles == 3 * 1024
    assert simulate(times, [1, 1, 1], dataflow="block").cycles == 1024 + 2 * 64


@pytest.mark.parametrize(
    ("copies", "dataflow", "named"),
    [
        (0, "layer", ">= 1"),
        ([1, 2], "layer", "one whole number"),
        ([1], "block", "2 whole numbers"),
        (1, "blok", "block"),
    ],
)
def test_wrong_copies_are_refused(copies, dataflow, named):
    with pytest.raises(InputError, match=named):
        simulate(np.ones((3, 2), dtype=int), copies, dataflow=dataflow)
