"""What each action costs and each part occupies, from `cimopt_components`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from cimopt_components import BufferCosts, ComponentTables, adc_resolution, needed_bits

from cimopt.errors import InputError
from cimopt_zeroskip.actions import ACTIONS, GLB_WORD_BITS, PE_WORD_BITS
from cimopt_zeroskip.writing import WriteSpec

# The tables' array energies are for an 8-bit input fed as up to 255 pulses; one plane is one pulse.
PULSES = 2**8 - 1
# Input and output buffer of a PE: 512 words of 128 bits each, 64 inputs or sums of all arrays (section IV gives none).
PE_BUFFER_WORDS = 512
# Address adders: energy once per access, area twice (reading and writing), as in the tiled model.
ADDERS = 2
GLB_WORDS_PER_MB = 8 * 1024 * 1024 // GLB_WORD_BITS

ENERGY_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "cells": ("cell_pulses", "cell_pulses_by_value"),
    "row_drivers": ("row_pulses",),
    "adc": ("conversions",),
    "pe_buffers": ("input_words", "output_words"),
    "router": ("router_transfers",),
    "glb": ("glb_reads", "glb_writes"),
    "dynamic_writes": ("cell_writes", "cell_writes_by_value", "row_writes"),
    "leakage": ("array_cycles", "pe_cycles", "chip_cycles"),
}
AREAS = ("cells", "row_drivers", "column_drivers", "adc", "pe_buffers", "router", "glb")

Columns = Mapping[str, np.ndarray]


def prices(tables: ComponentTables, keys: Columns, writing: WriteSpec) -> dict[str, np.ndarray]:
    """Price of every action in J, ``price`` ``(m, len(ACTIONS))`` (idle ones per cycle), and ``area`` in mm2.

    ``area`` ``(m, len(AREAS))`` is per array for the first four, per PE for buffers and router, once for the
    global buffer. ``keys`` are arrays of memory, node_nm, v_op, xbar_rows, xbar_cols, bits_per_cell,
    rows_per_read, cols_per_adc, glb_mb and t_cycle_ns. The tables hold one 5-bit converter per column; here
    ``cols_per_adc`` columns share one of the resolution that ``rows_per_read`` cells need.
    """
    price, area = np.empty((len(keys["node_nm"]), len(ACTIONS))), np.empty((len(keys["node_nm"]), len(AREAS)))
    for memory in np.unique(keys["memory"]):
        here = np.flatnonzero(keys["memory"] == memory)
        some = {name: np.asarray(values)[here] for name, values in keys.items()}
        price[here], area[here] = _of_memory(tables, str(memory), some, writing.pulses(str(memory)))
    return {"price": price, "area": area}


def _of_memory(
    tables: ComponentTables, memory: str, keys: Columns, write_pulses: float
) -> tuple[np.ndarray, np.ndarray]:
    array = tables.arrays(memory, *(keys[k] for k in ("node_nm", "v_op", "xbar_rows", "xbar_cols")))
    pe, glb, router = _buffers(tables, keys)
    bits = needed_bits(keys["rows_per_read"], np.array(1), keys["bits_per_cell"]).astype(int)
    resolution = adc_resolution()
    shared = resolution.relative_area[bits] / keys["cols_per_adc"]
    seconds = keys["t_cycle_ns"] * 1e-9
    cells = keys["xbar_rows"] * keys["xbar_cols"]
    off, on = array.cell_read_j[:, 2] / PULSES, array.cell_read_j[:, 3] / PULSES
    write_off, write_on = array.cell_write_j[:, 2] * write_pulses, array.cell_write_j[:, 3] * write_pulses
    leak = cells * array.cell_leak_w + array.rows_leak_w + array.cols_leak_w + array.adcs_leak_w * shared
    word = pe.read_j + pe.write_j + 2 * pe.address_j
    price = {
        "cell_pulses": off,
        "cell_pulses_by_value": on - off,
        "row_pulses": array.row_read_j[:, 2] / PULSES,
        "conversions": array.adc_read_j.mean(axis=1) * resolution.relative_energy[bits],
        "input_words": word,
        "output_words": word,
        "router_transfers": router.transfer_j,
        "glb_reads": glb.read_j + glb.address_j,
        "glb_writes": glb.write_j + glb.address_j,
        "array_cycles": leak * seconds,
        "pe_cycles": 2 * pe.leak_w * seconds,
        "chip_cycles": glb.leak_w * seconds,
        "cell_writes": write_off,
        "cell_writes_by_value": write_on - write_off,
        "row_writes": array.row_write_j[:, 2] * write_pulses,
    }
    area = [
        array.cell_area_mm2 * cells, array.rows_area_mm2, array.cols_area_mm2, array.adcs_area_mm2 * shared,
        2 * _area(pe), router.area_mm2, _area(glb),
    ]  # fmt: skip
    return np.stack([price[name] for name in ACTIONS], axis=1), np.stack(area, axis=1)


def _buffers(tables: ComponentTables, keys: Columns):
    node = keys["node_nm"]
    pe = tables.buffers(np.full(len(node), PE_WORD_BITS), np.full(len(node), PE_BUFFER_WORDS), node)
    try:
        glb = tables.buffers(np.full(len(node), GLB_WORD_BITS), keys["glb_mb"] * GLB_WORDS_PER_MB, node)
    except InputError as error:
        raise InputError(f"global buffer (4096 words per MB of glb_mb): {error}") from error
    return pe, glb, tables.routers(node)


def _area(costs: BufferCosts) -> np.ndarray:
    return costs.area_mm2 + ADDERS * costs.address_area_mm2


def energy_parts(actions: np.ndarray, price: np.ndarray) -> dict[str, np.ndarray]:
    """Energy per component in J, each ``(n, x)``; actions ``(n, x, len(ACTIONS))``, price ``(n, len(ACTIONS))``."""
    place = {name: i for i, name in enumerate(ACTIONS)}
    return {
        part: sum(actions[:, :, place[c]] * price[:, place[c], None] for c in columns)
        for part, columns in ENERGY_COLUMNS.items()
    }


def area_parts(area: np.ndarray, n_arrays: np.ndarray, n_pes: np.ndarray) -> dict[str, np.ndarray]:
    """Area per component in mm2, each ``(n,)``."""
    counts = [n_arrays] * 4 + [n_pes] * 2 + [np.ones(len(n_pes))]
    return {name: area[:, i] * counts[i] for i, name in enumerate(AREAS)}
