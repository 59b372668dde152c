"""Level after level (the paper's Fig. 7)."""

import pytest

from cimopt.config.compose import compose
from cimopt.config.schema import parse
from cimopt.engine.sequential import check_levels, level_config, start_design
from cimopt.errors import InputError
from cimopt.space import from_config
from cimopt.testing import space_named


def test_start_designs():
    space = space_named("rram")
    largest = start_design(space, "largest", {})
    # JOINT_SEARCH section 3: the authors' "max" start.
    assert largest == {
        "v_op": 0.85, "bits_per_cell": 8, "t_cycle_ns": 10, "xbar_rows": 512, "xbar_cols": 512, "router_groups": 32,
        "tiles_per_router": 64, "macros_per_tile": 128, "glb_mb": 32,
    }  # fmt: skip
    assert start_design(space, "median", {"xbar_rows": 256})["xbar_rows"] == 256
    tech = start_design(space_named("sram_tech"), "largest", {})
    assert (tech["node_nm"], tech["v_op"]) == (45, 1.1)
    with pytest.raises(InputError, match="did you mean 'xbar_rows'"):
        start_design(space, "median", {"xbar_row": 256})
    with pytest.raises(InputError, match="xbar_rows=48 is not a choice"):
        start_design(space, "median", {"xbar_rows": 48})


def test_levels_split_the_space():
    config = parse(compose(["search=sequential"]))
    space = from_config(config.space)
    design = start_design(space, "median", {})
    parts = {level: level_config(config, space, level, design) for level in check_levels(config.search.levels)}
    assert parts.pop("network") is None, "no network is searched here"
    sizes = {level: from_config(part.space).size for level, part in parts.items()}
    # JOINT_SEARCH section 8: 8 device and 25 circuit designs, 48 system ones; 6 x 5 x 6 x 7 architectures.
    assert sizes == {"device": 8, "circuit": 25, "architecture": 1260, "system": 48}
    sram = parse(compose(["space=sram"]))
    assert level_config(sram, from_config(sram.space), "device", {}) is None, "SRAM has no device level"


@pytest.mark.parametrize("levels", [[], ["device", "device"], ["devices"], "device"])
def test_wrong_levels(levels):
    with pytest.raises(InputError, match="levels"):
        check_levels(levels)
