from itertools import pairwise

import numpy as np

from cimopt.evaluators import Evaluator, OneByOneEvaluator, names
from cimopt.types import Layer, Metrics, Workload


class Cells(Evaluator):
    name, version = "cells", "1"
    requires, provides = ("xbar_rows", "xbar_cols"), ("area_mm2",)

    def evaluate(self, designs, workloads, detail="totals"):
        return Metrics({"area_mm2": designs["xbar_rows"] * designs["xbar_cols"] * 1e-4}, names(workloads))


class Sleepy(OneByOneEvaluator):
    """A slow model: 10 ms a design, counting its calls in a file."""

    name, version = "sleepy", "1"
    requires, provides = (
        ("xbar_rows", "xbar_cols", "macros_per_tile", "bits_per_cell"),
        ("energy_j", "latency_s", "area_mm2"),
    )

    def __init__(self, sleep_s: float = 0.01, log: str = ""):
        self.sleep_s, self.log = sleep_s, log

    def evaluate_one(self, design, workload):
        import time

        time.sleep(self.sleep_s)
        if self.log:
            with open(self.log, "a") as file:
                file.write(" ".join(str(v) for v in design.values()) + "\n")
        if design["xbar_rows"] == 64 and design["xbar_cols"] == 64:
            raise RuntimeError("the mapper gave up")
        cells = design["xbar_rows"] * design["xbar_cols"] * design["macros_per_tile"]
        return {"energy_j": 1e-3 * design["bits_per_cell"], "latency_s": 1.0 / cells, "area_mm2": cells * 1e-4}


class Guess(Evaluator):
    """A made-up accuracy that grows with products and bits: enough to make large networks worth something."""

    name, version = "guess", "1"
    requires, provides = (), ("accuracy",)

    def evaluate(self, designs, workloads, detail="totals"):
        row = [w.macs / (w.macs + 1e7) * (1 - 0.5 ** w.layers[0].weight_bits) for w in workloads]
        return Metrics({"accuracy": np.tile(row, (len(designs), 1))}, names(workloads))


def mlp(hidden=64, depth=2):
    """A network of a plug-in: its parameters can be set and searched."""
    if hidden % 2:
        raise ValueError("hidden must be even")
    sizes = [784, *[hidden] * depth, 10]
    layers = [Layer(f"fc{i}", "linear", a, b) for i, (a, b) in enumerate(pairwise(sizes))]
    return Workload("mlp", tuple(layers))
