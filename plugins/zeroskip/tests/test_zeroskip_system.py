"""Packing, network bounds and buffers: by hand on small chips, and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_zeroskip import ArraySpec, map_layer
from cimopt_zeroskip.chip import plan_and_run, run
from cimopt_zeroskip.published import CHIP_SIZES, published_works
from cimopt_zeroskip.system import (
    NetworkSpec,
    buffered_bits,
    mean_hops,
    network_bounds,
    pack,
    pack_chip,
    plan_packed,
    system_report,
)  # fmt: skip
from cimopt_zeroskip.work import TraceWork, uniform_work
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt.errors import InputError
from cimopt.types import Layer


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 150), min_size=1, max_size=80))
def test_packing_never_splits_a_block_nor_overfills_a_pe(sizes):
    capacity = 64
    pe_of, pes = pack(sizes, capacity)
    load = np.zeros(pes, dtype=int)
    wide = np.array(sizes) // capacity
    for size, pe, whole in zip(sizes, pe_of, wide, strict=True):
        if whole:  # larger than a PE: whole PEs of its own; its rest lies wherever there is room
            load[pe : pe + whole] += capacity
        else:
            load[pe] += size
    assert load.max() <= capacity
    assert -(-sum(sizes) // capacity) <= pes <= len(sizes) + wide.sum()
    # First fit decreasing needs at most 11/9 of the best plus one (Dosa, 2007); the best is at least the counted.
    if not wide.any() and max(sizes) <= capacity // 2:
        assert pes <= -(-2 * sum(sizes) // capacity) + 1


def test_packing_by_hand():
    """Sizes 40, 40, 24, 24 fill two PEs of 64; three 40s need three."""
    assert pack([40, 24, 40, 24])[1] == 2
    pe_of, pes = pack([40, 40, 40])
    assert (pes, len(set(pe_of.tolist()))) == (3, 3)
    with pytest.raises(InputError, match=">= 1"):
        pack([0])


@pytest.mark.parametrize("network", ["resnet18", "vgg11"])
def test_published_chips_lose_nothing_to_packing(network):
    """Blocks of 4, 8, 16 and 32 arrays fill PEs of 64 without a gap but the last PE's."""
    works = published_works(network)
    for n in CHIP_SIZES[network]:
        for dataflow in ("layer", "block"):
            packing = pack_chip(works, plan_and_run(works, n, "profile", dataflow).copies)
            assert packing.pes == packing.counted
            assert 0 <= packing.lost < 64


def _one_layer() -> list[TraceWork]:
    """128 inputs to 16 outputs at 10 places: one array, 100 cycles each."""
    layer = Layer("fc", "linear", 128, 16, out_map=(10, 1))
    return [TraceWork(map_layer(layer, ArraySpec()), np.full((1, 1, 10), 100, np.int32), np.array([1.0]))]


def test_network_bounds_by_hand():
    """A patch is 1024 bits in and 16 sums of 23 bits out: 8 + 1 and 3 + 1 flits of 128 bits, ten times."""
    works = _one_layer()
    chip = run(works, [np.array([1])], "layer", 64)
    network = NetworkSpec(link_bits=128, cycles_per_array_cycle=1, vector_units=1, buffer_ports=1)
    bounds = network_bounds(works, chip, network, n_pes=1)
    assert bounds == {"pe_input": 90, "pe_output": 40, "buffer_output": 90, "vector_input": 40, "bisection": 32.5}
    report = system_report(works, chip, network, 1)
    assert (report.bottleneck, report.cycles) == ("arrays", 1000)
    narrow = NetworkSpec(link_bits=1, cycles_per_array_cycle=1, vector_units=1, buffer_ports=1)
    report = system_report(works, chip, narrow, 1)
    assert (report.bottleneck, report.cycles) == ("pe_input", 10 * (1024 + 1))


def test_copies_share_a_blocks_operations():
    works = _one_layer()
    network = NetworkSpec(cycles_per_array_cycle=1)
    spread = network_bounds(works, run(works, [np.array([128])], "layer", 128), network, 2)
    together = network_bounds(works, run(works, [np.array([1])], "layer", 128), network, 2)
    assert spread["pe_input"] == pytest.approx(together["pe_input"] / 2)
    assert spread["buffer_output"] == together["buffer_output"]


@pytest.mark.parametrize("key", ["link_bits", "cycles_per_array_cycle", "vector_units", "buffer_ports"])
def test_a_wider_network_is_never_slower(key):
    works = published_works("resnet18")
    chip = plan_and_run(works, 8192, "profile", "block")
    before = None
    for value in (1, 2, 8, 64, 300):
        bounds = network_bounds(works, chip, NetworkSpec(**{key: value}), 128)
        if before:
            assert all(bounds[k] <= before[k] * (1 + 1e-12) for k in bounds)
        before = bounds


def test_the_papers_chip_needs_a_mesh_faster_than_its_arrays():
    """At 384 PEs a mesh with 128-bit links at the arrays' clock is the bottleneck by far; at ten times it is near."""
    works = published_works("resnet18")
    chip = plan_and_run(works, 24576, "profile", "block")
    slow = system_report(works, chip, NetworkSpec(cycles_per_array_cycle=1), 384)
    assert slow.bottleneck != "arrays"
    assert slow.cycles > 8 * chip.cycles
    small = plan_and_run(works, 5472, "profile", "block")
    assert system_report(works, small, NetworkSpec(), 86).bottleneck == "arrays"


def test_feature_maps_are_held_twice():
    layer = Layer("c", "conv", 3, 8, (3, 3), (2, 2), (1,) * 4, out_map=(4, 4))
    assert buffered_bits([uniform_work(map_layer(layer, ArraySpec()))]) == 2 * 3 * 7 * 7 * 8


def test_planning_with_packing_fits():
    """Blocks of 3 arrays in PEs of 4 waste one array each: counting would promise more copies than there is room."""
    layer = Layer("c", "linear", 128, 48, out_map=(1000, 1))
    mapped = map_layer(layer, ArraySpec())
    works = [TraceWork(mapped, np.full((1, 1, 1000), 64, np.int32), np.array([1.0]))]
    assert mapped.arrays_per_block == 3
    assert plan_and_run(works, 40, "profile", "block").copies[0].tolist() == [13]
    packed = plan_packed(works, 10, "profile", "block", arrays_per_pe=4)
    assert packed.copies[0].tolist() == [10]
    assert packed.n_arrays == 40
    with pytest.raises(InputError, match="does not fit into 1 PEs"):
        plan_packed(published_works("vgg11"), 1, "profile", "block")


def test_mean_hops_of_a_mesh():
    """All pairs of a 3 x 3 mesh, by hand: 2 x (8/9) = 16/9."""
    places = [(x, y) for x in range(3) for y in range(3)]
    far = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a in places for b in places]
    assert mean_hops(9) == pytest.approx(np.mean(far))


@pytest.mark.parametrize("key", ["link_bits", "cycles_per_array_cycle", "vector_units", "buffer_ports", "sum_bits"])
def test_wrong_network_is_refused(key):
    with pytest.raises(InputError, match=f"{key}=0"):
        NetworkSpec(**{key: 0})
