"""Rows that stage tables point into."""

from __future__ import annotations

import numpy as np
from cimopt_tiled.pool import ABSENT, Pool


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
