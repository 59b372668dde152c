"""Shared by the tests of this plug-in: designs from plain rows, workloads, the reference folder."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from cimopt_tiled.counts import COUNT_NAMES
from cimopt_tiled.evaluator import STRUCTURE, TiledEvaluator
from cimopt_tiled.layers import layer_set
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import Kernel, count_layers

from cimopt.types import Designs, Parameter, ParameterSet, Workload
from cimopt.workloads.published import load_published

REFERENCE = Path(__file__).resolve().parents[3].parent / "shared" / "reference"
GOLDEN = Path(__file__).parent / "golden"
BASE = {
    "memory": "rram",
    "v_op": 0.5,
    "t_cycle_ns": 1,
    "bits_per_cell": 8,
    "xbar_rows": 512,
    "xbar_cols": 128,
    "macros_per_tile": 32,
    "tiles_per_router": 32,
    "router_groups": 8,
    "glb_mb": 4.0,
    "node_nm": 32,
}
SRAM = BASE | {"memory": "sram", "bits_per_cell": 1, "xbar_rows": 256, "router_groups": 2}


def _number(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_rows(path: Path) -> list[dict[str, float | int | str]]:
    """Rows of a CSV file with numbers as numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)]


def make_designs(rows: Sequence[dict[str, float | int | str]]) -> Designs:
    """Designs with one gene per parameter whose choices are the values found in ``rows``."""
    names = tuple(BASE)
    parameters = ParameterSet(tuple(Parameter(n, tuple(sorted({row[n] for row in rows}))) for n in names))
    genes = [[p.choices.index(row[p.name]) for p in parameters.parameters] for row in rows]
    return Designs(parameters, np.array(genes))


def _counts_of(row: dict) -> dict[str, float]:
    """Our counts of one layer on one structure; DRAM in the 128-bit transfers of the quoted rows."""
    one = Workload("one", (load_published(row["workload"]).layers[row["layer"]],))
    layers = layer_set([one], stride_ignored=True, groups_ignored=True)
    structure = np.array([[row[name] for name in STRUCTURE]])
    quirks = Quirks(weights_exact_in_time=False)  # the quoted implementation does not know it
    counts = count_layers(structure, layers.dims, layers.steps, layers.widths, Kernel.of(row["memory"], quirks))
    mine = dict(zip(COUNT_NAMES, counts[0, 0], strict=True))
    return mine | {"dram_bits": math.ceil(mine["dram_bits"] / 128)}


def _count_mismatches(row: dict) -> list[str]:
    """Counts that differ by more than 2, which is the rounding of the quoted floats."""
    quoted = {
        "router_transfers": "router_128b",
        "glb_reads": "glb_reads_2048b",
        "glb_writes": "glb_writes_2048b",
        "dram_bits": "dram_128b",
    }
    mine = _counts_of(row)
    compared = [name for name in COUNT_NAMES if quoted.get(name, name) in row]
    assert len(compared) == 14
    return [f"{name}: {mine[name]}, {row}" for name in compared if abs(mine[name] - row[quoted.get(name, name)]) > 2]


@pytest.fixture(scope="session")
def count_mismatches() -> Callable[[dict], list[str]]:
    """Compare all counts of a quoted row."""
    return _count_mismatches


@pytest.fixture(scope="session")
def rows_of() -> Callable[[Path], list[dict]]:
    """Read a CSV file."""
    return read_rows


@pytest.fixture(scope="session")
def designs() -> Callable[[Sequence[dict]], Designs]:
    """Build designs from rows of parameter values."""
    return make_designs


@pytest.fixture
def base() -> dict:
    """An RRAM design that holds the four CNNs."""
    return dict(BASE)


@pytest.fixture
def sram() -> dict:
    """An SRAM design."""
    return dict(SRAM)


@pytest.fixture(scope="session")
def cnn4() -> list:
    """The four CNNs as published."""
    return [load_published(name) for name in ("alexnet", "vgg16", "resnet18", "mobilenet_v3")]


@pytest.fixture(scope="session")
def evaluator() -> TiledEvaluator:
    """The published preset."""
    return TiledEvaluator()


@pytest.fixture(scope="session")
def golden() -> Callable[[str], list[dict]]:
    """Rows of a file of quoted numbers."""
    return lambda name: read_rows(GOLDEN / name)


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder with all published points; tests that need it are skipped where it is absent."""
    if not REFERENCE.is_dir():
        pytest.skip("the reference folder is not beside this checkout")
    return REFERENCE
