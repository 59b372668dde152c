"""Crossover and mutation: pymoo's distributions, never out of range, no division by zero."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from cimopt.samplers.operators import polynomial_mutation, sbx, to_genes, tournament

DRAWS = 100_000
FALSE_ALARM = 1e-6  # per comparison: chance that two equal distributions fail


def same_counts(mine, theirs, n):
    table = np.array([np.bincount(mine, minlength=n), np.bincount(theirs, minlength=n)])
    table = table[:, table.sum(axis=0) >= 10]
    return chi2_contingency(table).pvalue


@pytest.mark.parametrize("eta", [3, 7, 15, 25])
@pytest.mark.parametrize("pair", [(1, 6), (2, 3), (0, 7)])
def test_sbx_matches_pymoo(eta, pair):
    cross_sbx = pytest.importorskip("pymoo.operators.crossover.sbx").cross_sbx
    parents = np.empty((2, DRAWS, 1))
    parents[0], parents[1] = pair
    low, high = np.zeros(1), np.full(1, 7.0)
    theirs = cross_sbx(
        parents.copy(), low, high, np.full((DRAWS, 1), float(eta)), np.full((DRAWS, 1), 0.5), np.full((DRAWS, 1), 0.5),
        random_state=np.random.default_rng(5),
    )  # fmt: skip
    mine = sbx(parents, np.array([8]), eta=eta, probability=1.0, rng=np.random.default_rng(6))
    for child in range(2):
        a = to_genes(mine[child], np.array([8]))[:, 0]
        b = to_genes(theirs[child], np.array([8]))[:, 0]
        assert same_counts(a, b, 8) > FALSE_ALARM


@pytest.mark.parametrize("eta", [3, 7, 15, 25])
@pytest.mark.parametrize("gene", [0, 3, 7])
def test_mutation_matches_pymoo(eta, gene):
    mut_pm = pytest.importorskip("pymoo.operators.mutation.pm").mut_pm
    genes = np.full((DRAWS, 1), gene)
    theirs = mut_pm(
        genes.astype(float), np.zeros(1), np.full(1, 7.0), np.full(DRAWS, float(eta)), np.full(DRAWS, 0.5), False,
        random_state=np.random.default_rng(7),
    )  # fmt: skip
    mine = polynomial_mutation(
        genes, np.array([8]), eta=eta, probability=1.0, rng=np.random.default_rng(8), per_gene=0.5
    )
    assert same_counts(to_genes(mine, np.array([8]))[:, 0], to_genes(theirs, np.array([8]))[:, 0], 8) > FALSE_ALARM


@given(
    st.integers(0, 2**32 - 1), st.floats(0, 30), st.floats(0, 1), st.lists(st.integers(1, 9), min_size=1, max_size=6)
)
def test_children_stay_legal_for_any_parents(seed, eta, probability, sizes):
    """Cases O2, O3: equal parents, single-choice genes and bounds are harmless; results are whole numbers."""
    rng = np.random.default_rng(seed)
    n_choices = np.array(sizes)
    parents = rng.integers(0, n_choices, size=(2, 40, len(sizes)))
    parents[1, :10] = parents[0, :10]
    with np.errstate(all="raise"):
        crossed = sbx(parents, n_choices, eta=eta, probability=probability, rng=rng)
        genes = to_genes(crossed.reshape(-1, len(sizes)), n_choices)
        mutated = to_genes(polynomial_mutation(genes, n_choices, eta=eta, probability=probability, rng=rng), n_choices)
    for made in (genes, mutated):
        assert made.dtype == np.int64
        assert (made >= 0).all()
        assert (made < n_choices).all()
    assert np.array_equal(crossed[:, :10], parents[:, :10]), "equal parents have equal children"


def test_probability_zero_copies():
    rng = np.random.default_rng(0)
    parents = rng.integers(0, 8, size=(2, 50, 4))
    n = np.full(4, 8)
    assert np.array_equal(sbx(parents, n, eta=3, probability=0.0, rng=rng), parents)
    assert np.array_equal(polynomial_mutation(parents[0], n, eta=3, probability=0.0, rng=rng), parents[0])


def test_larger_eta_stays_nearer():
    rng = np.random.default_rng(1)
    genes = np.full((20_000, 1), 16.0)
    n = np.array([33])
    moved = [
        np.abs(polynomial_mutation(genes, n, eta=e, probability=1, rng=rng, per_gene=1.0) - 16).mean()
        for e in (3, 7, 15, 25)
    ]
    assert moved == sorted(moved, reverse=True)


def test_tournaments_prefer_the_better_and_use_everyone():
    rank = np.arange(40)
    winners = tournament(rank, 20_000, np.random.default_rng(2))
    wins = np.bincount(winners, minlength=40)
    assert wins[0] == pytest.approx(1000, abs=30), "the best wins each of its fights"
    assert wins[-1] < 30
    assert np.corrcoef(wins, rank)[0, 1] < -0.99
