"""Rows that stage tables point into."""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.physical import TiledPhysical
from cimopt_tiled.pool import ABSENT, Pool

from cimopt.types import Layer, Workload
from cimopt.workloads import load


def test_rows_are_found_again_and_absent_ones_are_nan():
    pool, rng = Pool(), np.random.default_rng(0)
    added = [rng.random((m, 3)) for m in (0, 4, 1, 40, 2)]
    slots = np.concatenate([pool.extend({"a": some, "b": some[:, 0].astype(np.float32)}) for some in added])
    whole = np.concatenate(added)
    assert pool.used == len(whole) == 47
    np.testing.assert_array_equal(pool.take("a", slots[::-1]), whole[::-1])
    mixed = np.array([3, ABSENT, 46])
    assert np.isnan(pool.take("b", mixed)).tolist() == [False, True, False]
    assert pool.take("b", mixed).dtype == np.float32


@pytest.mark.parametrize("kind", [TiledEvaluator, TiledPhysical])
def test_networks_may_change_from_call_to_call(kind, base, sram, designs):
    """A search over networks: one evaluator, a design or two of each network, some of them again."""
    nets = [load("resnet18"), load("mobilenet_v3"), load("resnet18"), load("vgg11")]
    rows = [[base], [base, base | {"v_op": 0.7}], [base | {"v_op": 0.7}], [sram]]
    model = kind()
    for net, some in zip(nets * 2, rows + rows[::-1], strict=True):
        found, fresh = (m.evaluate(designs(some), [net]).values for m in (model, kind()))
        for name, values in fresh.items():
            assert np.array_equal(found[name], values), name


def test_memory_does_not_grow_with_networks(base, designs):
    """What is kept belongs to the last network: rows in the pool, stage tables, layers as arrays."""
    model = TiledPhysical()
    used = []
    for width in range(32, 64):
        net = Workload(f"w{width}", (Layer("a", "linear", width, 64), Layer("b", "linear", 64, width)))
        model.evaluate(designs([base]), [net])
        used.append(model._pool.used)
        assert model._known_layers[0] == (net,)
    assert set(used) == {1}
    assert len(model._tables) == len(model.stages)
