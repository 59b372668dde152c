"""Typed lookups in the shipped tables: energy in J, area in mm2, leakage in W, latency in s.

Sources and units of the files: ``data/SOURCES.md``. Values are taken at the listed points only, and a point
that is not listed is an `InputError`; between listed points values are interpolated only when asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cimopt.errors import unknown_name
from cimopt_components.lookup import Index, load

J_PER_PJ = 1e-12
MM2_PER_UM2 = 1e-6

# (mean input, mean cell value) of the four corners, in the order of every ``(m, 4)`` array below.
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))

_ARRAY_FILES = {"rram": "arrays_rram.csv", "sram": "arrays_sram.csv"}
_ARRAY_KEYS = ("node_nm", "v_op", "xbar_rows", "xbar_cols")
_BUFFER_KEYS = ("node_nm", "width", "depth")
LARGEST_ROUTER_NM = 45
UNVALIDATED_ROUTERS_NM = (65, 90)
_ROUTER_SOURCES = {"library": "library_pj", "fitted": "fitted_pj"}


@dataclass(frozen=True)
class ArrayCosts:
    """One array and its periphery. Energies J per action, ``(m, 4)`` at `CORNERS`; areas mm2, ``(m,)``.

    The cell area is for one cell, the others for the whole macro (all rows or all columns).
    Leakage is per macro, of one cell for `cell_leak_w`.
    """

    cell_read_j: np.ndarray
    cell_write_j: np.ndarray
    row_read_j: np.ndarray
    row_write_j: np.ndarray
    col_read_j: np.ndarray
    adc_read_j: np.ndarray
    cell_area_mm2: np.ndarray
    rows_area_mm2: np.ndarray
    cols_area_mm2: np.ndarray
    adcs_area_mm2: np.ndarray
    cell_leak_w: np.ndarray
    rows_leak_w: np.ndarray
    cols_leak_w: np.ndarray
    adcs_leak_w: np.ndarray


@dataclass(frozen=True)
class BufferCosts:
    """One SRAM buffer, every field ``(m,)``; energies per word, the address adder separate."""

    read_j: np.ndarray
    write_j: np.ndarray
    address_j: np.ndarray
    area_mm2: np.ndarray
    address_area_mm2: np.ndarray
    leak_w: np.ndarray
    latency_s: np.ndarray
    accesses_per_s: np.ndarray


@dataclass(frozen=True)
class RouterCosts:
    """One router, every field ``(m,)``; energy per 128-bit transfer."""

    transfer_j: np.ndarray
    area_mm2: np.ndarray


def bilinear_coefficients(corners: np.ndarray) -> np.ndarray:
    """Turn values at `CORNERS`, ``(m, 4)``, into factors of (1, a, w, a*w), ``(m, 4)``."""
    e00, e01, e10, e11 = np.moveaxis(np.asarray(corners, dtype=np.float64), -1, 0)
    return np.stack([e00, e10 - e00, e01 - e00, e11 - e10 - e01 + e00], axis=-1)


class ComponentTables:
    """Lookups by arrays of equal length; files are read on the first lookup that needs them."""

    def __init__(self, interpolate: bool = False, allow_unvalidated: bool = False) -> None:
        """Settings.

        Args:
            interpolate: take values between listed points (multilinear; linear in the voltage, in the logarithm
                of the other keys) instead of refusing; outside the listed range nothing is ever given.
            allow_unvalidated: give routers at 65 and 90 nm, scaled from 45 nm (energy linearly, area by the square).
        """
        self.interpolate = interpolate
        self.allow_unvalidated = allow_unvalidated

    def arrays(
        self, memory: str, node_nm: np.ndarray, v_op: np.ndarray, xbar_rows: np.ndarray, xbar_cols: np.ndarray
    ) -> ArrayCosts:
        """Costs of arrays of ``memory`` ("rram" or "sram"), key arrays ``(m,)``."""
        if memory not in _ARRAY_FILES:
            raise unknown_name("memory", memory, _ARRAY_FILES)
        index = self._rram if memory == "rram" else self._sram
        at = index.places(self.interpolate, node_nm=node_nm, v_op=v_op, xbar_rows=xbar_rows, xbar_cols=xbar_cols)
        table = load(_ARRAY_FILES[memory])

        def corners(action: str) -> np.ndarray:
            return np.stack([at.take(table[f"{action}{a}{w}"]) for a, w in CORNERS], axis=-1) * J_PER_PJ

        def area(part: str) -> np.ndarray:
            return at.take(table[f"{part}_area"]) * MM2_PER_UM2

        return ArrayCosts(
            cell_read_j=corners("cell_r"),
            cell_write_j=corners("cell_w"),
            row_read_j=corners("row_r"),
            row_write_j=corners("row_w"),
            col_read_j=corners("col_r"),
            adc_read_j=corners("adc_r"),
            cell_area_mm2=area("cell"),
            rows_area_mm2=area("row"),
            cols_area_mm2=area("col"),
            adcs_area_mm2=area("adc"),
            cell_leak_w=at.take(table["cell_leak"]),
            rows_leak_w=at.take(table["row_leak"]),
            cols_leak_w=at.take(table["col_leak"]),
            adcs_leak_w=at.take(table["adc_leak"]),
        )

    def buffers(self, width: np.ndarray, depth: np.ndarray, node_nm: np.ndarray) -> BufferCosts:
        """Costs of buffers of ``width`` bits x ``depth`` words, key arrays ``(m,)``."""
        at = self._buffers.places(self.interpolate, node_nm=node_nm, width=width, depth=depth)
        table = load("buffers.csv")
        return BufferCosts(
            read_j=at.take(table["r"]) * J_PER_PJ,
            write_j=at.take(table["w"]) * J_PER_PJ,
            address_j=at.take(table["add"]) * J_PER_PJ,
            area_mm2=at.take(table["area"]) * MM2_PER_UM2,
            address_area_mm2=at.take(table["add_area"]) * MM2_PER_UM2,
            leak_w=at.take(table["leak"]),
            latency_s=at.take(table["lat"]),
            accesses_per_s=at.take(table["thr"]),
        )

    def routers(self, node_nm: np.ndarray, source: str = "library") -> RouterCosts:
        """Costs of routers; ``source`` "library", or "fitted" for the value fitted at 22 nm."""
        if source not in _ROUTER_SOURCES:
            raise unknown_name("router source", source, _ROUTER_SOURCES)
        node_nm = np.asarray(node_nm, dtype=float)
        scale = np.ones(node_nm.shape)
        if self.allow_unvalidated:
            beyond = np.isin(node_nm, UNVALIDATED_ROUTERS_NM)
            scale = np.where(beyond, node_nm / LARGEST_ROUTER_NM, 1.0)
            node_nm = np.where(beyond, LARGEST_ROUTER_NM, node_nm)
        at = self._routers.places(self.interpolate, node_nm=node_nm)
        table = load("routers.csv")
        return RouterCosts(
            transfer_j=at.take(table[_ROUTER_SOURCES[source]]) * J_PER_PJ * scale,
            area_mm2=at.take(table["area_um2"]) * MM2_PER_UM2 * scale**2,
        )

    @cached_property
    def _rram(self) -> Index:
        return Index("rram array", load(_ARRAY_FILES["rram"]), _ARRAY_KEYS)

    @cached_property
    def _sram(self) -> Index:
        return Index("sram array", load(_ARRAY_FILES["sram"]), _ARRAY_KEYS)

    @cached_property
    def _buffers(self) -> Index:
        return Index("buffer", load("buffers.csv"), _BUFFER_KEYS)

    @cached_property
    def _routers(self) -> Index:
        return Index("router", load("routers.csv"), ("node_nm",))

    def __getstate__(self) -> dict[str, object]:
        """Pickle the settings: files are read again where they are needed."""
        return {"interpolate": self.interpolate, "allow_unvalidated": self.allow_unvalidated}
