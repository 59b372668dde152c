"""The two speeds that searches and the exhaustive engine rely on, with room for a slow machine."""

from __future__ import annotations

import itertools
import time

import numpy as np
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.layers import layer_set
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import Kernel, sum_layers

from cimopt.types import Designs, Parameter, ParameterSet

SIZES = (32, 64, 128, 256, 512)
SPACE = {
    "v_op": (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85),
    "bits_per_cell": (1, 2, 3, 4, 5, 6, 7, 8),
    "t_cycle_ns": (1, 2, 4, 6, 8, 10),
    "xbar_rows": SIZES,
    "xbar_cols": SIZES,
    "router_groups": (1, 2, 4, 8, 16, 32),
    "tiles_per_router": (4, 8, 16, 32, 64),
    "macros_per_tile": (4, 8, 16, 32, 64, 128),
    "glb_mb": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
}


def test_every_structure_of_the_rram_space(cnn4):
    """36,000 structures x the four networks' distinct layers in under 20 s on one core."""
    order = ("bits_per_cell", "xbar_rows", "xbar_cols", "macros_per_tile", "tiles_per_router", "router_groups")
    grid = np.array(list(itertools.product(*(SPACE[name] for name in order))))
    layers = layer_set(cnn4, stride_ignored=True, groups_ignored=True)
    kernel = Kernel.of("rram", Quirks())
    sum_layers(grid[:1], layers.dims, layers.steps, layers.basis, kernel)  # compiles
    start = time.perf_counter()
    _, figures = sum_layers(grid, layers.dims, layers.steps, layers.basis, kernel)
    assert time.perf_counter() - start < 20
    assert figures.shape == (36_000, 4, 3)


def test_two_hundred_thousand_designs_a_second(cnn4):
    parameters = ParameterSet(tuple(Parameter(k, v) for k, v in SPACE.items()), {"memory": "rram", "node_nm": 32})
    genes = np.random.default_rng(0).integers(0, parameters.n_choices, (200_000, len(SPACE)))
    some, model = Designs(parameters, genes), TiledEvaluator()
    model.evaluate(some, cnn4)  # fills the stage tables
    start = time.perf_counter()
    metrics = model.evaluate(some, cnn4)
    assert time.perf_counter() - start < 1
    assert 0.1 < metrics.ok.mean() < 0.2  # 14.9 % of the structures hold the four networks
