"""Converters of other resolutions, component sets, and the provenance of every table."""

from __future__ import annotations

import csv
import hashlib
from importlib.resources import files

import numpy as np
import pytest
import yaml
from cimopt_components import adc_resolution, checked_bits, component_set, needed_bits, set_names
from cimopt_components.adc import MAX_BITS, TABLE_BITS

from cimopt.errors import InputError

DATA = files("cimopt_components") / "data"


def test_resolution_is_anchored_at_five_bits_and_rises():
    table = adc_resolution()
    assert table.relative_energy[TABLE_BITS] == table.relative_area[TABLE_BITS] == 1
    assert np.isnan(table.energy_j[0])
    for values in (table.energy_j, table.area_mm2):
        assert len(values) == MAX_BITS + 1
        assert (np.diff(values[1:]) > 0).all()


def test_isaac_converter_is_the_eight_bit_point():
    """16 mW over 8 converters of 1.2 GS/s, 9600 um2 over 8 (ISAAC)."""
    table = adc_resolution()
    assert table.energy_j[8] == pytest.approx(16e-3 / (8 * 1.2e9), rel=3e-3)
    assert table.area_mm2[8] == pytest.approx(9600e-6 / 8)


@pytest.mark.parametrize(
    ("rows", "dac", "cell", "bits"), [(128, 1, 1, 8), (128, 1, 2, 9), (1, 1, 1, 1), (512, 8, 8, 25), (127, 1, 1, 7)]
)
def test_needed_bits(rows, dac, cell, bits):
    assert needed_bits(rows, dac, cell) == bits
    assert rows * (2**dac - 1) * (2**cell - 1) < 2**bits


@pytest.mark.parametrize("bits", [0, 17, -1, 7.5, "7", None, np.array([4, 99])])
def test_other_bits_are_refused(bits):
    with pytest.raises(InputError, match="adc_bits"):
        checked_bits("adc_bits", bits)


def test_sets_name_their_sources():
    for name in set_names():
        found = component_set(name)
        assert found.name == name
        assert found.source
        assert set(found.defaults) == {"adc_bits", "cols_per_adc", "rows_per_read"}
        plain = yaml.safe_load((DATA / "sets" / f"{name}.yaml").read_text("utf-8"))
        for part in ("shift_add", "defaults", *(["dac"] if plain["dac"]["kind"] == "absolute" else [])):
            assert plain[part]["source"]
    with pytest.raises(InputError, match=r"isaac_lik.*'isaac_like'"):
        component_set("isaac_lik")


def test_every_row_of_every_table_names_its_source():
    tables = sorted(f.name for f in DATA.iterdir() if f.name.endswith(".csv"))
    assert len(tables) >= 5
    for name in tables:
        with (DATA / name).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert all(row["source"] for row in rows), name
        nodes = {row["node_nm"] for row in rows if row["validated"] == "no"} if "node_nm" in rows[0] else set()
        assert nodes <= {"65", "90"}, name
        if name in ("arrays_sram.csv", "buffers.csv"):
            assert nodes == {"65", "90"}


def test_the_manifest_pins_version_and_content():
    manifest = yaml.safe_load((DATA / "manifest.yaml").read_text("utf-8"))
    assert manifest["version"]
    for name, digest in manifest["sha256"].items():
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest, name
    assert set(manifest["sha256"]) == {f.name for f in DATA.iterdir() if f.name.endswith(".csv")}
