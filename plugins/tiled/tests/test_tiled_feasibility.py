"""Which designs the published tool chain could not run: the start pools of its runs, by their seed.

Source: stored results behind arXiv 2603.03880. Each run draws 1,000 designs with numpy's legacy generator
(seed 1, one column per gene), keeps the 500 most spread out, and could not evaluate a known number of
them, all because the global buffer overflows. RRAM pools keep only designs that hold the weights.
"""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.layers import layer_set

from cimopt.types import Designs, Parameter, ParameterSet
from cimopt.workloads.published import load_published, published_names

V_OP = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85)
T_CYCLE_NS = (1, 2, 4, 6, 8, 10)
SRAM = {
    "v_op": V_OP,
    "t_cycle_ns": T_CYCLE_NS,
    "xbar_rows": (16, 32, 64, 128, 256, 512),
    "xbar_cols": (16, 32, 64, 128, 256, 512),
    "router_groups": (1, 2, 4, 6, 8, 16, 32),
    "tiles_per_router": (2, 4, 8, 16, 32, 64),
    "macros_per_tile": (2, 4, 8, 16, 32, 64, 128),
    "glb_mb": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0),
}
RRAM = {
    "v_op": V_OP,
    "bits_per_cell": tuple(range(1, 9)),
    "t_cycle_ns": T_CYCLE_NS,
    "xbar_rows": (32, 64, 128, 256, 512),
    "xbar_cols": (32, 64, 128, 256, 512),
    "router_groups": (1, 2, 4, 8, 16, 32),
    "tiles_per_router": (4, 8, 16, 32, 64),
    "macros_per_tile": (4, 8, 16, 32, 64, 128),
    "glb_mb": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
}
# The first SRAM runs left out the last choice of most parameters.
SRAM_REACHED = (8, 6, 5, 5, 6, 5, 6, 7)


def draw(random: np.random.RandomState, sizes: tuple[int, ...], n: int) -> np.ndarray:
    return np.stack([random.randint(0, size, size=n) for size in sizes], axis=1)


def most_spread(pool: np.ndarray, n: int) -> np.ndarray:
    """Start with the first row, then always the first of those farthest (Hamming) from all chosen."""
    chosen, distance = [0], (pool != pool[0]).sum(axis=1)
    while len(chosen) < n:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, (pool != pool[chosen[-1]]).sum(axis=1))
    return pool[chosen]


def parameters(space: dict, memory: str) -> ParameterSet:
    fixed = {"memory": memory, "node_nm": 32} | ({} if "bits_per_cell" in space else {"bits_per_cell": 1})
    return ParameterSet(tuple(Parameter(name, choices) for name, choices in space.items()), fixed)


def overflows(genes: np.ndarray, space: dict, memory: str, workloads: list) -> int:
    metrics = TiledEvaluator().evaluate(Designs(parameters(space, memory), genes), workloads)
    assert metrics.ok.all()
    return int((metrics.violations["glb"] > 0).sum())


def test_sram_pool_of_four_networks(cnn4):
    genes = most_spread(draw(np.random.RandomState(1), SRAM_REACHED, 1000), 500)
    assert genes[0].tolist() == [5, 0, 2, 2, 4, 4, 3, 3]
    assert overflows(genes, SRAM, "sram", cnn4) == 44


def test_sram_pool_of_nine_networks():
    sizes = tuple(len(choices) for choices in SRAM.values())
    genes = most_spread(draw(np.random.RandomState(1), sizes, 1000), 500)
    nine = [load_published(name) for name in published_names()]
    assert len(nine) == 9
    assert overflows(genes, SRAM, "sram", nine) == 86


def test_sram_pool_with_technology(cnn4):
    """168 of 500 could not be run: 136 at two nodes the tool chain lacked, 32 for the buffer."""
    genes = most_spread(draw(np.random.RandomState(1), (*SRAM_REACHED, 8), 1000), 500)
    known_node = genes[:, -1] >= 2
    assert (~known_node).sum() == 136
    assert overflows(genes[known_node, :-1], SRAM, "sram", cnn4) == 32


def test_rram_pool(cnn4):
    """6,510 draws for 1,000 that hold the weights; 126 of the 500 kept overflow the buffer."""
    sizes, model = tuple(len(choices) for choices in RRAM.values()), TiledEvaluator()
    random, drawn = np.random.RandomState(1), 0
    pool = np.empty((0, len(sizes)), dtype=np.int64)
    while len(pool) < 1000:
        some = draw(random, sizes, 1000 - len(pool))
        drawn += len(some)
        fits = model.precheck(Designs(parameters(RRAM, "rram"), some), cnn4)["cells"] <= 0
        pool = np.concatenate([pool, some[fits]])
    assert drawn == 6_510
    assert overflows(most_spread(pool, 500), RRAM, "rram", cnn4) == 126


@pytest.mark.parametrize(("bits", "share"), [(1, 0.055), (2, 0.098), (3, 0.159), (8, 0.239)])
def test_share_of_structures_that_hold_the_weights(bits, share, cnn4):
    """Of the 4,500 structures per bits per cell (stored results, as above)."""
    sizes = np.array(np.meshgrid(*(RRAM[n] for n in list(RRAM)[3:8]))).reshape(5, -1).prod(axis=0)
    needed = layer_set(cnn4, stride_ignored=True, groups_ignored=True).needed_cells(np.array([bits])).max()
    assert (sizes >= needed).mean() == pytest.approx(share, abs=5e-4)
