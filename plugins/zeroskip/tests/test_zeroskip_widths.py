"""Widths of weights and activations: cells, planes and what a profile can give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cimopt_zeroskip import ArraySpec, im2col, map_layer, popcounts
from cimopt_zeroskip.evaluator import ZeroSkipEvaluator
from cimopt_zeroskip.mapping import map_layers
from cimopt_zeroskip.nets import squeezenet
from cimopt_zeroskip.profile import Profile, ProfiledLayer, load, save
from cimopt_zeroskip.summary import save_summary, summarise
from cimopt_zeroskip.work import trace_work

from cimopt.errors import InputError
from cimopt.testing import space_named
from cimopt.types import Layer, Workload

CONV = Layer("c", "conv", 4, 16, (3, 3), padding=(1, 1, 1, 1), out_map=(6, 6))


def _profile(bits: int, zero_point: int = 3) -> Profile:
    codes = np.random.default_rng(2).integers(0, 1 << bits, (1, 6, 6, 4)).astype(np.uint8 if bits <= 8 else np.uint16)
    return Profile("p", (ProfiledLayer(CONV, "t", zero_point),), {"t": codes}, bits)


def _with_bits(net: Workload, weight_bits: int, activation_bits: int) -> Workload:
    widths = {"weight_bits": weight_bits, "activation_bits": activation_bits}
    return replace(net, layers=tuple(replace(layer, **widths) for layer in net.layers))


@pytest.mark.parametrize(("bits", "cells", "side"), [(1, 1, 1), (4, 4, 4), (8, 8, 8), (9, 9, 9), (16, 16, 16)])
def test_weight_bits_decide_the_cells(bits, cells, side):
    mapped = map_layer(replace(CONV, out_channels=128, weight_bits=bits), ArraySpec())
    assert (mapped.spec.cells_per_weight, mapped.arrays_per_block) == (cells, side)
    assert map_layer(replace(CONV, weight_bits=bits), ArraySpec(bits_per_cell=3)).spec.cells_per_weight == -(-bits // 3)


@pytest.mark.parametrize("bits", range(1, 9))
def test_narrower_inputs_are_the_codes_without_their_lowest_bits(bits):
    """Border included: padding holds the zero point, which is shifted like every code."""
    profile = _profile(8)
    mapped = map_layer(replace(CONV, activation_bits=bits), ArraySpec(cols_per_adc=1))
    codes = im2col(profile.tensors["t"][0], CONV, zero_point=3) >> (8 - bits)
    ones = popcounts(codes, rows_per_block=128, input_bits=bits)
    work = trace_work(profile, 0, mapped, [0])
    assert work.ones.tolist() == ones.sum(axis=(0, 2)).tolist()
    assert work.block_total.tolist() == np.maximum(1, -(-ones // 8)).sum(axis=(0, 2)).tolist()


def test_a_profile_cannot_give_more_bits_than_it_holds():
    with pytest.raises(InputError, match=r"layer 'c': activation_bits=9, but profile 'p' holds 8 bits"):
        trace_work(_profile(8), 0, map_layer(replace(CONV, activation_bits=9), ArraySpec()), [0])
    drawn = _with_bits(Workload("w", (CONV,)), 8, 16)
    space = space_named("zeroskip")
    with pytest.raises(InputError, match=r"activation_bits=16, but drawn activations have 8 bits"):
        ZeroSkipEvaluator().evaluate(space.designs(space.sample(1, np.random.default_rng(0))), [drawn])


def test_a_profiled_network_has_the_widths_of_its_profile(tmp_path):
    for bits in (4, 8, 11):
        save(_profile(bits), tmp_path / "p.npz")
        profile = load(tmp_path / "p.npz")
        assert [layer.activation_bits for layer in profile.workload.layers] == [bits]
        mapped = map_layers(profile.workload.layers, ArraySpec())[0]
        assert trace_work(profile, 0, mapped, [0]).jobs.min() >= 8 * bits  # a read per plane and column at least


def test_a_summary_holds_one_width(tmp_path):
    save_summary(summarise(_profile(6), ArraySpec(input_bits=6), "totals"), tmp_path / "s.npz")
    summary = load(tmp_path / "s.npz")
    assert summary.workload.layers[0].activation_bits == 6
    assert summary.work(0, map_layer(summary.layers[0], ArraySpec()), "totals").block_total.min() > 0
    with pytest.raises(InputError, match=r"input_bits=6; input_bits=8 needs the full profile"):
        summary.work(0, map_layer(CONV, ArraySpec()), "totals")


@pytest.fixture(scope="module")
def designs():
    """Designs with the provably best allocation: greedy policies look at totals and may lose a little."""
    space = space_named("zeroskip")
    genes = space.sample(12, np.random.default_rng(3))
    at = space.names.index("allocation")
    genes[:, at] = space.parameters.parameters[at].choices.index("optimal")
    genes[:, space.names.index("n_pes")] = space.n_choices[space.names.index("n_pes")] - 1
    return space.designs(genes)


@pytest.mark.parametrize("skip", [True, False])
def test_fewer_bits_never_cost_more(designs, skip):
    """Cycles, energy and arrays of every design, for weights and for activations; the network is SqueezeNet's head."""
    net = Workload("squeezenet", squeezenet().layers[:6])
    for axis in (0, 1):
        widths = [(b, 8) if axis == 0 else (8, b) for b in (1, 2, 3, 4, 6, 8)]
        found = [ZeroSkipEvaluator(skip=skip).evaluate(designs, [_with_bits(net, *w)]) for w in widths]
        assert all(metrics.ok.all() for metrics in found)
        arrays = np.stack([metrics.limits["arrays"].value for metrics in found])
        assert (np.diff(arrays, axis=0) >= 0).all()
        for metric in ("cycles", "energy_j", "latency_s"):
            values = np.stack([metrics.values[metric][:, 0] for metrics in found])
            assert (values[1:] >= values[:-1] * (1 - 1e-12)).all(), (axis, metric)


def test_four_bits_by_hand(designs):
    """Half the planes take half the cycles without skipping, and four-bit weights half the arrays of 1-bit cells."""
    net = Workload("w", (Layer("c", "conv", 128, 64, out_map=(4, 4)),))
    dense = ZeroSkipEvaluator(skip=False)
    eight, four = (dense.evaluate(designs, [_with_bits(net, 8, b)]).values["cycles"] for b in (8, 4))
    np.testing.assert_allclose(four, eight / 2)
    one_bit = ArraySpec(xbar_cols=32)
    assert map_layer(replace(net.layers[0], weight_bits=4), one_bit).arrays == 8
    assert map_layer(net.layers[0], one_bit).arrays == 16
