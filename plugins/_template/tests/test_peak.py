"""The contract in one subclass, then known values of this model."""

import numpy as np
import pytest
from cimopt_template import Peak

from cimopt.errors import InputError
from cimopt.testing import EvaluatorContract
from cimopt.types import Designs, Layer, ParameterSet, Workload


class TestPeak(EvaluatorContract):
    evaluator = Peak()
    space = "rram"
    workloads = ("resnet18", "alexnet")


CHIP = {
    "xbar_rows": 256,
    "xbar_cols": 256,
    "macros_per_tile": 8,
    "tiles_per_router": 16,
    "router_groups": 8,
    "bits_per_cell": 4,
    "t_cycle_ns": 4,
}
ONE_CHIP = Designs(ParameterSet((), CHIP), np.zeros((1, 0), dtype=int))
GIGA_MAC = Workload("giga", (Layer("fc", "linear", 1000, 1000, out_map=(1000, 1)),))


@pytest.mark.parametrize(("weight_bits", "slices"), [(8, 2), (4, 1), (9, 3)])
def test_peak_of_one_chip(weight_bits, slices):
    """2 x 65,536 cells x 1,024 macros in 4 ns is 33,554 TOPS, shared by the slices of a weight."""
    values = Peak(weight_bits).evaluate(ONE_CHIP, [GIGA_MAC]).values
    assert values["peak_tops"] == pytest.approx(np.array([[33_554.432 / slices]]))
    assert values["latency_s"] == pytest.approx(np.array([[2e9 / 33_554.432e12 * slices]]))


@pytest.mark.parametrize("weight_bits", [0, 2.5, "8", True])
def test_wrong_settings_are_refused(weight_bits):
    with pytest.raises(InputError, match=r"evaluator\.peak\.weight_bits"):
        Peak.from_config({"weight_bits": weight_bits})


def test_layers_have_bits_of_their_own():
    layers = tuple(Layer(f"fc{bits}", "linear", 1000, 1000, out_map=(1000, 1), weight_bits=bits) for bits in (4, 12))
    latency = Peak().evaluate(ONE_CHIP, [Workload("mixed", layers)]).values["latency_s"]
    assert latency == pytest.approx(np.array([[2e9 / 33_554.432e12 * (1 + 3)]]))
