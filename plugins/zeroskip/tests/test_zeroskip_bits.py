"""Ones per plane and op cycles: against plain counting, in both forms, and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_zeroskip import op_cycles, popcounts
from cimopt_zeroskip.bits import cost_table, count_ones, cycles_by_block
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt.errors import InputError


def _patches(seed: int, n: int, rows: int, bits: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 1 << bits, (n, rows)) * (rng.random((n, rows)) < 0.5)


def _counted(patches: np.ndarray, rows_per_block: int, bits: int) -> np.ndarray:
    """Bit by bit, block by block."""
    blocks = [patches[:, i : i + rows_per_block] for i in range(0, patches.shape[1], rows_per_block)]
    return np.stack([np.stack([((b >> k) & 1).sum(axis=1) for k in range(bits)], axis=1) for b in blocks], axis=1)


shapes = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 700), st.integers(1, 16))


@settings(max_examples=60, deadline=None)
@given(shapes, st.integers(1, 600))
def test_ones_are_counted_right(shape, rows_per_block):
    patches = _patches(*shape)
    got = popcounts(patches, rows_per_block=rows_per_block, input_bits=shape[3])
    assert got.dtype.kind == "i"
    assert np.array_equal(got, _counted(patches, rows_per_block, shape[3]))


@settings(max_examples=40, deadline=None)
@given(shapes)
def test_compiled_and_plain_forms_agree(shape):
    seed, n, rows, bits = shape
    flat = _patches(seed, n, rows, bits).astype(np.uint16 if bits > 8 else np.uint8).reshape(-1)
    cuts = np.unique(np.random.default_rng(seed).integers(0, rows + 1, 3))
    bounds = np.unique(np.concatenate([[0], cuts, [rows]])).astype(np.int64)
    places = np.arange(n) * rows, np.random.default_rng(seed).permutation(rows)
    fast, slow = (count_ones(flat, *places, bounds, bits, compiled=c) for c in (True, False))
    assert np.array_equal(fast, slow)
    table = cost_table(rows, 3, bits, 2)
    assert np.array_equal(*(cycles_by_block(fast, table, compiled=c) for c in (True, False)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_op_cycles_follow_the_formula(seed, rows_per_read):
    ones = np.random.default_rng(seed).integers(0, 129, (4, 3, 8))
    got = op_cycles(ones, rows_per_read=rows_per_read, weight_bits=8, skip=True, rows_per_block=128)
    assert got.tolist() == (8 * np.maximum(1, -(-ones // rows_per_read)).sum(axis=2)).tolist()
    dense = op_cycles(ones, rows_per_read=rows_per_read, weight_bits=8, skip=False, rows_per_block=128)
    assert (dense == 64 * -(-128 // rows_per_read)).all()
    assert (got <= dense).all()


def test_paper_range_64_to_1024():
    """Section IV: an array takes 64 to 1024 cycles; an empty plane still costs one read per column."""

    def cycles(ones, **how):
        return op_cycles(np.array([[ones]]), rows_per_read=8, weight_bits=8, rows_per_block=128, **how).item()

    assert cycles([0] * 8) == 64
    assert cycles([128] * 8) == 1024
    assert cycles([8] + [0] * 7) == 64
    assert cycles([9] + [0] * 7) == 72
    assert cycles([0] * 8, skip=False) == 1024
    assert cycles([0] * 8, floor=0) == 0
    assert cycles([1] + [0] * 7, floor=0) == 8


def test_rows_per_read_table():
    """Golden: case rpr_table of the authors' simulator, the two blocks of its first patch (189 and 101 cycles)."""
    table = np.array([[min(16, 20 - i - j) for j in range(8)] for i in range(8)])
    ones = np.array([[[26, 22, 30, 26, 37, 30, 33, 35], [15, 14, 14, 13, 14, 19, 13, 12]]])
    got = op_cycles(ones, rows_per_read=table, weight_bits=8, skip=True, rows_per_block=128)
    assert got.tolist() == [[189, 101]]


def test_more_ones_never_take_fewer_cycles():
    table = cost_table(512, 8, 8, 8)
    assert (np.diff(table, axis=1) >= 0).all()
    assert (cost_table(512, 16, 8, 8) <= table).all()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: popcounts(np.array([[256]]), rows_per_block=1, input_bits=8), "0..255"),
        (lambda: popcounts(np.array([[-1]]), rows_per_block=1, input_bits=8), "unsigned"),
        (lambda: popcounts(np.array([[0.5]]), rows_per_block=1, input_bits=8), "whole numbers"),
        (lambda: popcounts(np.array([1]), rows_per_block=1, input_bits=8), r"\(patches, rows\)"),
        (lambda: popcounts(np.array([[1]]), rows_per_block=0, input_bits=8), "rows_per_block=0"),
        (lambda: popcounts(np.array([[1]]), rows_per_block=1, input_bits=17), "input_bits=17"),
        (lambda: popcounts(np.ones((1, 9), int), rows_per_block=40_000, input_bits=8), "rows_per_block=40000"),
        (lambda: op_cycles(np.array([[[5]]]), rows_per_read=0, weight_bits=8), "rows_per_read=0"),
        (lambda: op_cycles(np.array([[[129]]]), rows_per_read=8, rows_per_block=128), "0..rows_per_block=128"),
        (lambda: op_cycles(np.array([[[5]]]), rows_per_read=np.ones((2, 2), int), weight_bits=8), "shape"),
    ],
)
def test_wrong_input_is_named(call, named):
    with pytest.raises(InputError, match=named):
        call()
