"""Prices, areas, leakage and rates of the physical preset, per geometry: the stages below the structure."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from cimopt_components import ComponentSet, ComponentTables, bilinear_coefficients

from cimopt.errors import InputError
from cimopt_tiled import prices
from cimopt_tiled.counts import GLB_WORD_BITS, IO_BITS
from cimopt_tiled.effects import Constants
from cimopt_tiled.inputs import InputCode
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import N_BASIS

NO_QUIRKS = Quirks(**{field.name: False for field in fields(Quirks)})
REFERENCE_NODE_NM = 32
Arrays = dict[str, np.ndarray]


def delay(v_op: np.ndarray, node_nm: np.ndarray, constants: Constants) -> np.ndarray:
    """Shortest cycle of an 8-bit macro in s, ``(m,)``: alpha-power law in the voltage, linear in the node."""
    if (v_op <= constants.v_threshold).any():
        low = np.asarray(v_op)[v_op <= constants.v_threshold][0]
        raise InputError(f"v_op={low} must be above the threshold voltage {constants.v_threshold} V to switch at all")
    ratio = _slowness(v_op, constants) / _slowness(np.asarray(constants.v_macro), constants)
    return constants.t_macro_s * ratio * node_nm / constants.node_macro_nm


def _slowness(volt: np.ndarray, constants: Constants) -> np.ndarray:
    return volt / (volt - constants.v_threshold) ** constants.alpha


def array_stage(
    tables: ComponentTables, parts: ComponentSet, memory: str, code: InputCode, constants: Constants, keys: Arrays
) -> Arrays:
    """One macro: price J ``(m, 20)``, area mm2 ``(m, 5)``, converter price, leakage and delay.

    The converter columns of ``price`` are kept in ``adc_price`` ``(m, 4)``, per conversion of the tables' 5-bit
    converter (or 1 for an absolute component set); ``adc_area`` and ``adc_leak`` are of one column's converter.
    """
    _check_node(parts, keys["node_nm"])
    costs = tables.arrays(memory, keys["node_nm"], keys["v_op"], keys["xbar_rows"], keys["xbar_cols"])
    found = prices.array_prices(tables, memory, NO_QUIRKS, keys)
    rows, cols = keys["xbar_rows"], keys["xbar_cols"]
    price, area = found["price"], found["area"]
    m = len(price)
    price[:, :N_BASIS] = code.scaled(price[:, :N_BASIS])
    price[:, N_BASIS : 2 * N_BASIS] = code.scaled(price[:, N_BASIS : 2 * N_BASIS])
    if parts.dac_j is not None:
        price[:, N_BASIS : 2 * N_BASIS] = np.array([parts.dac_j * code.pulses(), 0, 0, 0])
        area[:, prices.ARRAY_AREAS.index("row_drivers")] = parts.dac_mm2 * rows
    adc_price, adc_area = np.tile([1.0, 0, 0, 0], (m, 1)), np.ones(m)
    if parts.adc_from_tables:
        adc_price, adc_area = bilinear_coefficients(costs.adc_read_j), costs.adcs_area_mm2 / cols
    area[:, prices.ARRAY_AREAS.index("adc")] = 0
    scale = keys["node_nm"] / REFERENCE_NODE_NM
    return {
        "price": price,
        "area": area,
        "adc_price": adc_price,
        "adc_area": adc_area,
        "leak": costs.cell_leak_w * rows * cols + costs.rows_leak_w + costs.cols_leak_w,
        "adc_leak": costs.adcs_leak_w / cols,
        "shift_add_j": parts.shift_add_j * scale,
        "shift_add_mm2": parts.shift_add_mm2 * scale**2,
        "delay": delay(keys["v_op"], keys["node_nm"], constants),
    }


def _check_node(parts: ComponentSet, node_nm: np.ndarray) -> None:
    if parts.nodes_nm is None:
        return
    absent = ~np.isin(node_nm, parts.nodes_nm)
    if absent.any():
        known = ", ".join(map(str, parts.nodes_nm))
        raise InputError(f"node_nm={node_nm[absent][0]} is not in component set '{parts.name}' (it has: {known})")


def buffer_stage(tables: ComponentTables, keys: Arrays) -> Arrays:
    """One tile's buffers: price J ``(m, 4)``, area mm2 ``(m, 2)``, leakage W and seconds per access ``(m, 2)``."""
    found = prices.buffer_prices(tables, NO_QUIRKS, keys)
    width = IO_BITS * keys["macros_per_tile"]
    both = [tables.buffers(width, keys[depth], keys["node_nm"]) for depth in ("xbar_rows", "xbar_cols")]
    seconds = np.stack([1 / one.accesses_per_s for one in both], axis=1)
    return found | {"leak": both[0].leak_w + both[1].leak_w, "access_s": seconds}


def chip_stage(tables: ComponentTables, keys: Arrays) -> Arrays:
    """Router, global buffer and DRAM: price J ``(m, 4)``, area mm2 ``(m, 2)``, bits, leakage W, seconds per access."""
    found = prices.chip_prices(tables, NO_QUIRKS, keys)
    words = found["glb_bits"] / GLB_WORD_BITS
    glb = tables.buffers(np.full(len(words), GLB_WORD_BITS), words, keys["node_nm"])
    return found | {"leak": glb.leak_w, "access_s": 1 / glb.accesses_per_s}
