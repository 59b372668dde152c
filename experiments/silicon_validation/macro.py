"""One macro from the parts of the physical preset: TOPS/W, TOPS/mm2 and cycle of a chip described in ``chips/``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from cimopt_components import ComponentTables, adc_resolution, component_set
from cimopt_tiled.effects import Constants
from cimopt_tiled.inputs import InputCode
from cimopt_tiled.physical_prices import array_stage, delay
from cimopt_tiled.prices import ARRAY_AREAS

# Mean input and mean cell value, of full scale, where a chip says nothing.
MEAN_INPUT, MEAN_CELL = 0.5, 0.5
TABLES = ComponentTables(interpolate=True, allow_unvalidated=True)
PARTS = component_set("neurosim_like")


@dataclass(frozen=True)
class Prediction:
    """Predicted figures of one point; None where the chip's description lacks what it takes."""

    cycle_ns: float
    tops: float | None = None
    tops_per_w: float | None = None
    tops_per_mm2: float | None = None


def predict(chip: Mapping[str, Any], point: Mapping[str, Any]) -> Prediction:
    """Figures of one chip at one point; raises InputError where the tables do not reach."""
    bits = {**chip["bits"], **{k: point[k] for k in ("input", "adc") if k in point}}
    lookup = chip.get("extrapolate_from", {"node_nm": chip["node_nm"], "v": point["v"]})
    node, volt = np.array([float(lookup["node_nm"])]), np.array([float(lookup["v"])])
    constants = Constants()
    grow = chip["node_nm"] / lookup["node_nm"]
    cycle_s = delay(volt, node, constants).item() * grow * bits["adc"] / 8
    if "array" not in chip:
        return Prediction(cycle_s * 1e9)
    return _whole(chip, bits, cycle_s, node, volt, grow, grow * (point["v"] / lookup["v"]) ** 2)


def _whole(
    chip: Mapping[str, Any], bits: Mapping[str, int], cycle_s: float, node: np.ndarray, volt: np.ndarray,
    grow: float, energy_scale: float,
) -> Prediction:  # fmt: skip
    """Energy, time and area of one product of all inputs with all outputs of every array."""
    array = chip["array"]
    rows, cols = array["rows"], array["columns"]
    keys = {"node_nm": node, "v_op": volt, "xbar_rows": np.array([rows]), "xbar_cols": np.array([cols])}
    code = InputCode(bits["input_per_cycle"])
    steps, (of_cell, of_row) = code.steps(bits["input"]), code.factors(np.array([bits["input"]]))[0]
    found = array_stage(TABLES, PARTS, chip["memory"], code, Constants(), keys)
    basis = np.array([1, MEAN_INPUT, MEAN_CELL, MEAN_INPUT * MEAN_CELL])
    adc = adc_resolution()
    conversions = array["outputs"] * chip["conversions_per_output"] * steps
    per_conversion = found["adc_price"][0] @ basis * adc.relative_energy[bits["adc"]] + found["shift_add_j"][0]
    rows_j = array["stacked"] * rows * (found["price"][0, 4:8] @ (basis * of_row))
    cells_j = array["stacked"] * rows * cols * (found["price"][0, 0:4] @ (basis * of_cell))
    energy = (conversions * per_conversion + rows_j + cells_j) * energy_scale
    operations = 2 * rows * array["stacked"] * array["outputs"]
    tops = array["arrays"] * operations / (steps * cycle_s) / 1e12
    n_adc = cols / chip["columns_per_converter"]
    areas = dict(zip(ARRAY_AREAS, found["area"][0], strict=True))
    repeated = array["stacked"] * (areas["cells"] + areas["row_drivers"] + areas["column_drivers"])
    converters = n_adc * (found["adc_area"][0] * adc.relative_area[bits["adc"]] + found["shift_add_mm2"][0])
    area = array["arrays"] * (repeated + converters) * grow**2
    return Prediction(cycle_s * 1e9, tops, operations / energy / 1e12, tops / area)
