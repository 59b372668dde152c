"""The tables: anchors quoted in the literature notes, exact lookup, errors, physics."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from cimopt_components import CORNERS, ComponentTables, bilinear_coefficients
from cimopt_components.lookup import load

from cimopt.errors import InputError

TABLES = ComponentTables()
NODES = (7, 10, 14, 22, 32, 45, 65, 90)


def one(**keys):
    return {name: np.array([value]) for name, value in keys.items()}


def array(memory="sram", node_nm=32, v_op=0.5, xbar_rows=256, xbar_cols=256):
    return TABLES.arrays(memory, **one(node_nm=node_nm, v_op=v_op, xbar_rows=xbar_rows, xbar_cols=xbar_cols))


def test_rram_anchors():
    """32 nm: read a (0.580 + 2.56 w) pJ, w to two digits; converter about 801.4 um2 a column; cell 48 F2."""
    costs = array("rram", xbar_rows=512, xbar_cols=128)
    np.testing.assert_allclose(costs.cell_read_j[0], [0, 0, 0.58e-12, 3.14e-12], rtol=0.01)
    assert costs.adcs_area_mm2[0] / 128 == pytest.approx(801.4e-6, rel=1e-3)
    assert costs.cell_area_mm2[0] == pytest.approx(48 * 0.032**2 * 1e-6)


@pytest.mark.parametrize(
    ("v_op", "picojoule"), [(0.5, 0.070), (0.6, 0.43), (0.7, 0.97), (0.8, 1.63), (0.85, 1.98), (1.0, 3.13)]
)
def test_sram_write_energy_anchors(v_op, picojoule):
    assert array(v_op=v_op).cell_write_j[0, 0] == pytest.approx(picojoule * 1e-12, rel=0.02)


@pytest.mark.parametrize(("node", "per_column"), [(7, 56), (10, 113), (14, 226), (22, 404), (32, 856), (45, 1692)])
def test_sram_converter_area_by_node(node, per_column):
    area = array(node_nm=node, v_op={7: 0.5, 45: 0.8}.get(node, 0.65)).adcs_area_mm2[0]
    assert area / 256 == pytest.approx(per_column * 1e-6, rel=0.03)  # quoted for one geometry


@pytest.mark.parametrize(
    ("mb", "read", "write", "area"),
    [(2, 1024, 1456, 4.7), (8, 2416, 2643, 17.5), (32, 6751, 7618, 70), (128, 13510, 15247, 240)],
)
def test_global_buffer_anchors(mb, read, write, area):
    costs = TABLES.buffers(**one(width=2048, depth=mb * 4096, node_nm=32))
    assert costs.read_j[0] == pytest.approx(read * 1e-12, rel=0.01)
    assert costs.write_j[0] == pytest.approx(write * 1e-12, rel=0.01)
    assert costs.area_mm2[0] == pytest.approx(area, rel=0.02)


def test_routers_differ_between_sources_at_22nm_only():
    nodes = np.array([7, 10, 14, 22, 32, 45])
    library, fitted = (TABLES.routers(nodes, source) for source in ("library", "fitted"))
    ratio = fitted.transfer_j / library.transfer_j
    assert ratio[3] == pytest.approx(1.97, abs=0.005)
    assert np.delete(ratio, 3).tolist() == [1] * 5
    assert library.transfer_j[4] == pytest.approx(10.37e-12)
    assert library.area_mm2[4] == pytest.approx(18_750e-6)


def test_every_row_is_found_again():
    """Each listed point gives its own row, in J and mm2."""
    for memory in ("rram", "sram"):
        table = load(f"arrays_{memory}.csv")
        costs = TABLES.arrays(memory, *(table[key] for key in ("node_nm", "v_op", "xbar_rows", "xbar_cols")))
        np.testing.assert_allclose(costs.row_read_j[:, 2], table["row_r10"] * 1e-12)
        np.testing.assert_allclose(costs.rows_area_mm2, table["row_area"] * 1e-6)
    table = load("buffers.csv")
    costs = TABLES.buffers(table["width"], table["depth"], table["node_nm"])
    np.testing.assert_allclose(costs.write_j, table["w"] * 1e-12)


def test_bilinear_coefficients_give_the_corners_and_the_middle():
    corners = np.array([[1.0, 2.0, 4.0, 9.0]])
    c = bilinear_coefficients(corners)[0]
    for (a, w), value in zip(CORNERS, corners[0], strict=True):
        assert c @ [1, a, w, a * w] == value
    assert c @ [1, 0.5, 0.5, 0.25] == corners.mean()


def test_voltage_matches_through_float_error():
    assert array(v_op=0.1 + 0.2 + 0.3).cell_write_j[0, 0] == array(v_op=0.6).cell_write_j[0, 0]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"memory": "rram", "node_nm": 22}, ("node_nm=22", "rram", "32")),
        ({"node_nm": 28}, ("node_nm=28", "sram", "7, 10, 14, 22, 32, 45, 65, 90")),
        ({"v_op": 0.45}, ("v_op=0.45", "node_nm=32", "0.5, 0.55")),
        ({"v_op": 0.52}, ("v_op=0.52",)),
        ({"xbar_rows": 48}, ("xbar_rows=48", "16, 32, 64, 128, 256, 512")),
        ({"xbar_cols": 1024}, ("xbar_cols=1024", "xbar_rows=256")),
        ({"memory": "pcm"}, ("memory", "pcm")),
    ],
)
def test_absent_arrays_are_named(keys, words):
    with pytest.raises(InputError) as error:
        array(**keys)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_absent_buffers_and_routers_are_named():
    with pytest.raises(InputError, match=r"depth=100 .*node_nm=7, width=2048 .*2048, 4096"):
        TABLES.buffers(**one(width=2048, depth=100, node_nm=7))
    with pytest.raises(InputError, match=r"node_nm=65 .*router"):
        TABLES.routers(np.array([32, 65]))
    with pytest.raises(InputError, match=r"libary.*'library'"):
        TABLES.routers(np.array([32]), "libary")


def test_the_first_absent_point_of_many_is_named():
    with pytest.raises(InputError, match=r"v_op=0\.9 is not in the rram"):
        TABLES.arrays("rram", np.full(3, 32), np.array([0.5, 0.9, 2.0]), np.full(3, 32), np.full(3, 32))


def test_a_smaller_node_is_never_larger():
    """One named exception: the 0.5 MB global buffer at 22 nm."""
    table = load("buffers.csv")
    larger = []
    for width, depth in sorted(set(zip(table["width"], table["depth"], strict=True))):
        area = [TABLES.buffers(**one(width=width, depth=depth, node_nm=n)).area_mm2[0] for n in NODES]
        larger += [(width, depth, NODES[i]) for i in np.flatnonzero(np.diff(area) < 0)]
    assert larger == [(2048, 2048, 22)]
    routers = TABLES.routers(np.array(NODES[:6]))
    assert (np.diff(routers.area_mm2) > 0).all()
    for rows, cols in ((16, 16), (256, 128), (512, 512)):
        costs = [
            array(node_nm=n, v_op=v, xbar_rows=rows, xbar_cols=cols)
            for n, v in ((7, 0.8), (10, 0.8), (14, 0.8), (22, 0.8), (32, 0.8), (45, 0.8))
        ]
        for part in ("cell_area_mm2", "rows_area_mm2", "adcs_area_mm2"):
            assert (np.diff([getattr(c, part)[0] for c in costs]) >= 0).all(), part


def test_nothing_is_read_at_import_and_a_lookup_reads_one_file():
    code = (
        "import numpy as np, cimopt_components as c, cimopt_components.lookup as l;"
        "assert l.load.cache_info().currsize == 0;"
        "c.ComponentTables().arrays('sram', *(np.array([v]) for v in (32, 0.5, 16, 16)));"
        "print(l.load.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) == 1


def test_tables_pickle_without_their_content():
    again = pickle.loads(pickle.dumps(TABLES))
    assert len(pickle.dumps(TABLES)) < 200
    keys = one(width=16, depth=16, node_nm=7)
    assert again.buffers(**keys).read_j[0] == TABLES.buffers(**keys).read_j[0] > 0


def test_shipped_columns_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        load("routers.csv")["node_nm"][0] = 1


# ------------------------------------------------------------ between listed points
def test_interpolation_meets_the_listed_points_and_stays_between():
    between = ComponentTables(interpolate=True)
    listed = one(node_nm=32, v_op=0.7, xbar_rows=128, xbar_cols=256)
    np.testing.assert_allclose(between.arrays("sram", **listed).row_read_j, TABLES.arrays("sram", **listed).row_read_j)
    low, high = (TABLES.buffers(**one(node_nm=n, width=2048, depth=8192)).area_mm2[0] for n in (22, 32))
    middle = between.buffers(**one(node_nm=28, width=2048, depth=8192)).area_mm2[0]
    share = np.log2(28 / 22) / np.log2(32 / 22)
    assert middle == pytest.approx(low + share * (high - low))
    volts = [between.arrays("sram", **listed | one(v_op=v)).cell_write_j[0, 0] for v in (0.65, 0.66, 0.7)]
    assert volts[1] == pytest.approx(volts[0] + 0.2 * (volts[2] - volts[0]))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"v_op": 1.4}, ("v_op=1.4", "sram")),
        ({"node_nm": 5}, ("node_nm=5", "7..90")),
        ({"xbar_rows": 1024}, ("xbar_rows=1024", "16..512")),
        ({"node_nm": 7, "v_op": 1.1}, ("v_op=1.1", "node_nm=7")),
    ],
)
def test_nothing_is_given_beyond_the_listed_range(keys, words):
    with pytest.raises(InputError) as error:
        ComponentTables(interpolate=True).arrays(
            "sram", **one(**{**dict(node_nm=32, v_op=0.7, xbar_rows=64, xbar_cols=64), **keys})
        )
    assert all(word in str(error.value) for word in words), str(error.value)


def test_routers_at_unvalidated_nodes_are_scaled_from_45nm_on_request():
    nodes = np.array([45, 65, 90])
    routers = ComponentTables(allow_unvalidated=True).routers(nodes)
    np.testing.assert_allclose(routers.transfer_j / routers.transfer_j[0], nodes / 45)
    np.testing.assert_allclose(routers.area_mm2 / routers.area_mm2[0], (nodes / 45) ** 2)
