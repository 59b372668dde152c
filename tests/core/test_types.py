"""Shared records: wrong states cannot be built."""

import numpy as np
import pytest

from cimopt.errors import InputError, masked, unknown_name
from cimopt.types import Designs, Layer, Limit, Metrics, Parameter, ParameterSet


def test_did_you_mean():
    assert "did you mean 'xbar_rows'?" in str(unknown_name("parameter", "xbar_row", ["xbar_rows", "v_op"]))
    assert "did you mean" not in str(unknown_name("parameter", "zzz", ["xbar_rows"]))


def test_passwords_are_masked():
    assert masked("cannot open postgresql://me:secret@host/db") == "cannot open postgresql://me:***@host/db"


@pytest.mark.parametrize(
    "genes", [np.array([[3]]), np.array([[-1]]), np.array([[0.0]]), np.array([[0, 0]]), np.array([0])]
)
def test_designs_refuse_genes_outside_the_space(genes):
    parameters = ParameterSet((Parameter("a", (1, 2, 3)),))
    with pytest.raises(InputError):
        Designs(parameters, genes)


def test_designs_decode_fixed_and_upstream_columns():
    parameters = ParameterSet((Parameter("a", (1, 2, 3)),), {"memory": "rram"})
    designs = Designs(parameters, np.array([[2], [0]])).with_upstream({"area_mm2": np.array([5.0, 6.0])})
    assert designs["a"].tolist() == [3, 1]
    assert designs["memory"].tolist() == ["rram", "rram"]
    assert designs.take(slice(1, 2))["area_mm2"].tolist() == [6.0]
    assert designs.row(0) == {"a": 3, "memory": "rram"}
    with pytest.raises(InputError, match="unknown parameter 'b'"):
        designs["b"]


@pytest.mark.parametrize(
    "change",
    [
        {"groups": 3},
        {"out_map": (0, 1)},
        {"kernel": (3,)},
        {"kind": "pool"},
        {"mean_input": 1.5},
        {"repeats": 0},
        {"stride": (1.0, 1)},
        {"weight_bits": 0},
        {"activation_bits": 17},
        {"weight_bits": 4.0},
    ],
)
def test_layers_refuse_impossible_shapes(change):
    with pytest.raises(InputError, match="layer 'x'"):
        Layer(**{"name": "x", "kind": "conv", "in_channels": 4, "out_channels": 8, **change})


def test_grouped_macs_and_weights():
    """Cases W1 and W2: grouped and depthwise-with-multiplier convolutions, batch 2."""
    grouped = Layer("w1", "conv", 4, 6, kernel=(3, 2), groups=2, out_map=(4, 4), batch=2)
    assert (grouped.macs, grouped.weights) == (2304, 72)
    depthwise = Layer("w2", "conv", 4, 8, kernel=(3, 3), groups=4, out_map=(4, 4), batch=2)
    assert (depthwise.macs, depthwise.weights) == (2304, 72)


def test_concat_keeps_reasons_and_fills_gaps():
    a = Metrics({"e": np.array([[1.0]])}, ("w",), violations={"cells": np.array([0.2])})
    b = Metrics.failed(["boom", "bang"], ("w",))
    joined = Metrics.concat([a, b])
    assert joined.values["e"].shape == (3, 1)
    assert np.isnan(joined.values["e"][1:]).all()
    assert [joined.outcome(i).state for i in range(3)] == ["infeasible", "error", "error"]
    assert [joined.outcome(i).reason for i in range(3)] == ["", "boom", "bang"]


def test_limits_are_cut_with_their_rows():
    limit = Limit(np.array([1.0, 2.0]), np.array(5.0), "mm2").take(slice(1, 2))
    assert limit.value.tolist() == [2.0]
    assert limit.limit.tolist() == [5.0]
