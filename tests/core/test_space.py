"""Spaces: sizes from the paper's lists, round trips, sampling, enumeration, fixing, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cimopt.errors import InputError
from cimopt.space import from_config
from cimopt.testing import space_named
from cimopt.types import Parameter, ParameterSet

# JOINT_SEARCH section 3: sizes of the authors' lists.
SIZES = {"rram": 12_096_000, "sram": 2_488_320, "sram9": 4_064_256, "sram_tech": 14_929_920, "rram_small": 1_200}


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_sizes_are_the_papers(name, size):
    assert space_named(name).size == size


@pytest.mark.parametrize("name", SIZES)
def test_decode_encode_round_trip(name, rng):
    space = space_named(name)
    genes = space.sample(50, rng)
    rows = list(space.designs(genes).rows())
    assert np.array_equal([space.encode(row) for row in rows], genes)
    assert all(type(v) in (int, float, str) for v in rows[0].values())


def test_every_node_and_voltage_round_trips():
    """Case O16: all 6 x 8 pairs of the conditional voltage, and none across nodes."""
    space = space_named("sram_tech")
    base = space.designs(space.genes_at(0, 1)).row(0)
    seen = 0
    for node, low in {7: 0.45, 10: 0.5, 14: 0.55, 22: 0.65, 32: 0.65, 45: 0.75}.items():
        for step in range(8):
            design = {**base, "node_nm": node, "v_op": round(low + 0.05 * step, 2)}
            decoded = space.designs(space.encode(design)[None, :]).row(0)
            assert decoded["v_op"] == pytest.approx(design["v_op"])
            assert decoded["node_nm"] == node
            seen += 1
    assert seen == 48
    with pytest.raises(InputError, match=r"v_op=1\.1 is not a choice"):  # case E12
        space.encode({**base, "node_nm": 7, "v_op": 1.1})


def test_enumeration_lists_each_design_once():
    space = space_named("rram_small")
    chunks = list(space.enumerate(chunk=97))
    everything = np.concatenate(chunks)
    assert max(map(len, chunks)) <= 97
    assert len(everything) == len(np.unique(everything, axis=0)) == 1200
    assert np.array_equal(space.key(everything), np.arange(1200))


def test_sampling_is_uniform():
    """Chi-square over the 8 x 6 pairs of two genes; a fair sampler fails this at p = 1e-6 only."""
    from scipy.stats import chisquare

    space = space_named("rram")
    genes = space.sample(48_000, np.random.default_rng(0))
    pairs = np.bincount(genes[:, 0] * 6 + genes[:, 2], minlength=48)
    assert chisquare(pairs).pvalue > 1e-6


def test_rram_capacity_share(reference):
    """JOINT_SEARCH section 3: 5,353 of the 36,000 structural combinations hold all four networks."""
    from cimopt.config.assemble import assemble
    from cimopt.config.compose import compose
    from cimopt.config.schema import parse

    fixed = ["space.fix.v_op=0.5", "space.fix.t_cycle_ns=1", "space.fix.glb_mb=32"]
    rooms = assemble(parse(compose(["workload=cnn4_published", *fixed])))
    genes = np.concatenate(list(rooms.space.enumerate()))
    fits = rooms.precheck(genes) <= 0
    assert len(genes) == 36_000
    assert int(fits.sum()) == 5_353


def two_lists(rules=None, fix=None):
    return from_config(
        {
            "name": "t",
            "parameters": {
                "node": {"choices": [7, 45]},
                "volt": {"depends_on": "node", "by_parent": {7: [0.5, 0.6], 45: [0.6, 0.8, 1.0]}},
                "rows": {"choices": [2, 4, 8]},
            },
            "rules": rules or {},
            "fix": fix or {},
        }
    )


def test_dependent_lists_of_different_length():
    space = two_lists()
    assert space.size == (2 + 3) * 3
    assert space.grid_size == 2 * 3 * 3
    genes = np.concatenate(list(space.enumerate()))
    assert len(genes) == 15
    illegal = np.array([[0, 2, 0]])
    assert not space.valid(illegal)[0]
    assert space.valid(space.repair(illegal))[0]


def test_fixing_a_parent_keeps_its_list():
    space = two_lists(fix={"node": 45})
    assert space.size == 9
    assert set(space.designs(np.concatenate(list(space.enumerate())))["volt"]) == {0.6, 0.8, 1.0}


def test_fixing_a_dependent_value_drops_parents_without_it():
    assert two_lists(fix={"volt": 0.6}).size == 2 * 3
    assert two_lists(fix={"volt": 1.0}).size == 1 * 3
    with pytest.raises(InputError, match=r"space\.fix\.volt=0\.7"):
        two_lists(fix={"volt": 0.7})


def test_rules_refuse_before_proposal(rng):
    space = two_lists(rules={"small": {"product": ["rows", "volt"], "max": 3.0}})
    genes = np.concatenate(list(space.enumerate()))
    designs = space.designs(genes)
    assert (designs["rows"] * designs["volt"] <= 3.0).all()
    assert space.valid(space.sample(200, rng)).all()
    impossible = two_lists(rules={"none": {"product": ["rows"], "max": 1}})
    with pytest.raises(InputError, match="seems empty"):
        impossible.sample(1, rng)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"parameters": {}}, "empty"),
        ({"parameters": {"a": {"choices": []}}}, "no choices"),
        ({"parameters": {"a": {"choices": [1, 1]}}}, "repeats a choice"),
        ({"parameters": {"a": {"choics": [1]}}}, "did you mean 'choices'"),
        ({"parameters": {"a": {"choices": [1], "level": "sytem"}}}, "did you mean 'system'"),
        ({"parameters": {"a": {"choices": [1, 2]}}, "fix": {"b": 1}}, "unknown parameter in space.fix 'b'"),
        (
            {"parameters": {"a": {"choices": [1, 2]}}, "fix": {"a": 3}},
            r"space.fix.a=3 is not a choice \(allowed: 1, 2\)",
        ),
        ({"parameters": {"a": {"choices": [1, 2]}}, "rules": {"r": {"product": ["c"]}}}, "unknown parameter"),
        ({"parameters": {"a": {"depends_on": "z", "by_parent": {}}}}, "unknown space.parameters.a.depends_on"),
        ({"parameters": {"a": {"choices": [float("nan")]}}}, "must be a number or a word"),
    ],
)
def test_wrong_spaces_are_refused_with_a_sentence(config, words):
    with pytest.raises(InputError, match=words):
        from_config(config)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(0, 10**6))
def test_keys_are_places_in_the_grid(sizes, at):
    parameters = tuple(Parameter(f"p{i}", tuple(range(n))) for i, n in enumerate(sizes))
    from cimopt.space import SearchSpace

    space = SearchSpace("s", ParameterSet(parameters))
    at %= space.grid_size
    genes = space.genes_at(at, at + 1)
    assert space.key(genes)[0] == at
    assert np.array_equal(space.encode(space.designs(genes).row(0)), genes[0])


def test_a_rule_over_words_is_refused():
    config = {
        "parameters": {"a": {"choices": [1, 2]}, "kind": {"choices": ["x", "y"]}},
        "rules": {"r": {"product": ["a", "kind"], "max": 3}},
    }
    with pytest.raises(InputError, match=r"space\.rules\.r: kind has words as choices"):
        from_config(config)
