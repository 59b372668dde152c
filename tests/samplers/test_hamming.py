"""The Hamming-diverse start: the authors' own order, bit for bit."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cimopt.samplers.box import BoxSpace
from cimopt.samplers.hamming import random_pool, select_diverse

# Quoted from the authors' stored SRAM run, seed 1 (JOINT_SEARCH section 1): bounds, first pool rows, first choices.
BOUNDS = (7, 5, 4, 4, 5, 4, 5, 6)
FIRST_ROWS = [[5, 0, 2, 2, 4, 4, 3, 3], [3, 4, 0, 4, 0, 2, 0, 3], [4, 1, 2, 0, 2, 1, 0, 4]]
FIRST_CHOICES = [0, 6, 22, 60, 2, 92, 565, 4, 9, 23]


def authors_pool():
    return random_pool(BoxSpace(tuple("abcdefgh"), tuple(b + 1 for b in BOUNDS)), 1000, seed=1)


def test_first_rows_and_choices_are_the_authors():
    pool = authors_pool()
    assert pool[:3].tolist() == FIRST_ROWS
    assert select_diverse(pool, 10).tolist() == FIRST_CHOICES


def test_the_whole_golden_order(reference):
    golden = json.loads((reference / "hamming_golden_sram4_seed1.json").read_text())
    assert select_diverse(authors_pool(), golden["P_E"]).tolist() == golden["selected_pool_indices"]


def slow_selection(pool, n):
    """The definition (the paper's Eqs. 1-2), word for word."""
    chosen = [0]
    while len(chosen) < n:
        best, best_distance = None, 0
        for i in range(len(pool)):
            distance = min(int((pool[i] != pool[j]).sum()) for j in chosen)
            if distance > best_distance:
                best, best_distance = i, distance
        if best is None:
            break
        chosen.append(best)
    return chosen


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 30))
def test_equals_its_definition(seed, size, n):
    pool = np.random.default_rng(seed).integers(0, 3, size=(size, 4))
    assert select_diverse(pool, n).tolist() == slow_selection(pool, n)[:n]


def test_duplicates_are_never_chosen():
    pool = np.array([[0, 0], [0, 0], [1, 1], [1, 1]])
    assert select_diverse(pool, 4).tolist() == [0, 2]
    assert select_diverse(np.zeros((0, 2), dtype=int), 3).tolist() == []


def test_the_pool_keeps_what_the_precheck_accepts():
    space = BoxSpace(("a", "b"), (10, 10))
    pool = random_pool(space, 200, 3, lambda genes: genes[:, 0] - 4.0)
    assert (pool[:, 0] <= 4).all()
    assert len(pool) == 200


@pytest.mark.parametrize("limit", [-1.0, -100.0])
def test_an_impossible_precheck_gives_the_least_violating(limit):
    space = BoxSpace(("a", "b"), (10, 10))
    pool = random_pool(space, 50, 3, lambda genes: genes[:, 0] - limit)
    assert len(pool) == 50
    assert (pool[:, 0] == 0).all(), "of a thousand rounds of draws the 50 nearest to the limit are kept"
