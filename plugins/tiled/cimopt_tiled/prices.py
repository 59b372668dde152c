"""What each action costs and each part occupies, in the order of the sums of `cimopt_tiled.structure`."""

from __future__ import annotations

import numpy as np
from cimopt_components import BufferCosts, ComponentTables, bilinear_coefficients

from cimopt.errors import InputError
from cimopt_tiled.counts import GLB_WORD_BITS, IO_BITS
from cimopt_tiled.quirks import Quirks

# LPDDR4: 8 pJ per bit, the value of the published system model.
DRAM_J_PER_BIT = 8e-12
GLB_BITS_PER_MB = 8 * 1024 * 1024
# Address adders: energy once per access, area twice (one for reading, one for writing).
ADDERS_PER_BUFFER = 2
REFERENCE_NODE_NM = 22

ARRAY_AREAS = ("cells", "row_drivers", "weight_drivers", "column_drivers", "adc")
BUFFER_AREAS = ("input_buffers", "output_buffers")
CHIP_AREAS = ("router", "glb")

Arrays = dict[str, np.ndarray]


def array_prices(tables: ComponentTables, memory: str, quirks: Quirks, keys: Arrays) -> Arrays:
    """Prices of one macro: ``price`` J ``(m, 20)`` and ``area`` mm2 ``(m, 5)`` (`ARRAY_AREAS`).

    ``keys`` are arrays of node_nm, v_op, xbar_rows and xbar_cols. Column drivers have no energy.
    """
    costs = tables.arrays(memory, keys["node_nm"], keys["v_op"], keys["xbar_rows"], keys["xbar_cols"])
    actions = (costs.cell_read_j, costs.row_read_j, costs.adc_read_j, costs.cell_write_j, costs.row_write_j)
    price = np.concatenate([bilinear_coefficients(corners) for corners in actions], axis=1)
    rows_area = costs.rows_area_mm2
    added = memory == "sram" and quirks.weight_driver_area_added
    area = [
        costs.cell_area_mm2 * keys["xbar_rows"] * keys["xbar_cols"],
        rows_area,
        rows_area if added else np.zeros_like(rows_area),
        costs.cols_area_mm2,
        costs.adcs_area_mm2,
    ]
    return {"price": price, "area": np.stack(area, axis=1)}


def _access(costs: BufferCosts, node_nm: np.ndarray, quirks: Quirks) -> tuple[np.ndarray, np.ndarray]:
    """Energy of one read and of one write in J."""
    scale = np.ones(len(node_nm))
    if quirks.buffer_energy_scaled_below_22nm:
        scale = np.sqrt(np.minimum(node_nm, REFERENCE_NODE_NM) / REFERENCE_NODE_NM)
    return costs.read_j * scale + costs.address_j, costs.write_j * scale + costs.address_j


def _area(costs: BufferCosts) -> np.ndarray:
    return costs.area_mm2 + ADDERS_PER_BUFFER * costs.address_area_mm2


def _buffers(
    tables: ComponentTables, what: str, width: np.ndarray, depth: np.ndarray, node_nm: np.ndarray
) -> BufferCosts:
    """Look buffers up; an absent one is reported with the parameters its size comes from."""
    try:
        return tables.buffers(width, depth, node_nm)
    except InputError as error:
        raise InputError(f"{what}: {error}") from error


def buffer_prices(tables: ComponentTables, quirks: Quirks, keys: Arrays) -> Arrays:
    """Prices of one tile's buffers: ``price`` J ``(m, 4)``, ``area`` mm2 ``(m, 2)`` (`BUFFER_AREAS`).

    Both are 8 bits wide per macro; the input buffer has a word per row, the output buffer per column.
    """
    width, node = IO_BITS * keys["macros_per_tile"], keys["node_nm"]
    inputs = _buffers(
        tables, "input buffer (8 x macros_per_tile bits, xbar_rows words)", width, keys["xbar_rows"], node
    )
    outputs = _buffers(
        tables, "output buffer (8 x macros_per_tile bits, xbar_cols words)", width, keys["xbar_cols"], node
    )
    price = [*_access(inputs, node, quirks), *_access(outputs, node, quirks)]
    return {"price": np.stack(price, axis=1), "area": np.stack([_area(inputs), _area(outputs)], axis=1)}


def chip_prices(tables: ComponentTables, quirks: Quirks, keys: Arrays) -> Arrays:
    """Prices of router, global buffer and DRAM: ``price`` J ``(m, 4)``, ``area`` mm2 ``(m, 2)``, ``glb_bits``."""
    node = keys["node_nm"]
    bits = keys["glb_mb"] * GLB_BITS_PER_MB
    router = tables.routers(node, "fitted" if quirks.router_energy_fitted_22nm else "library")
    words = bits / GLB_WORD_BITS
    glb = _buffers(
        tables, "global buffer (4096 words per MB of glb_mb)", np.full(len(node), GLB_WORD_BITS), words, node
    )
    price = [router.transfer_j, *_access(glb, node, quirks), np.full(len(node), DRAM_J_PER_BIT)]
    area = [router.area_mm2, _area(glb)]
    return {"price": np.stack(price, axis=1), "area": np.stack(area, axis=1), "glb_bits": bits.astype(float)}
