"""Converters of other resolutions than the tables' 5 bits (source per row: ``data/adc_resolution.csv``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cimopt.errors import InputError
from cimopt_components.lookup import load
from cimopt_components.tables import J_PER_PJ, MM2_PER_UM2

MIN_BITS, MAX_BITS = 1, 16
TABLE_BITS = 5  # resolution of the converters in the array tables


@dataclass(frozen=True)
class AdcResolution:
    """Converters at 32 nm by resolution, arrays indexed by bits ``(17,)``; entry 0 is NaN.

    `energy_j` per conversion, `area_mm2` per converter; `relative_energy` and `relative_area` are 1 at 5 bits.
    """

    energy_j: np.ndarray
    area_mm2: np.ndarray

    @property
    def relative_energy(self) -> np.ndarray:
        return self.energy_j / self.energy_j[TABLE_BITS]

    @property
    def relative_area(self) -> np.ndarray:
        return self.area_mm2 / self.area_mm2[TABLE_BITS]


def adc_resolution() -> AdcResolution:
    """Energy and area by resolution; both rise strictly with the bits."""
    table = load("adc_resolution.csv")
    energy, area = (np.full(MAX_BITS + 1, np.nan) for _ in range(2))
    bits = table["bits"].astype(int)
    energy[bits], area[bits] = table["energy_pj"] * J_PER_PJ, table["area_um2"] * MM2_PER_UM2
    return AdcResolution(energy, area)


def checked_bits(name: str, bits: object) -> np.ndarray:
    """Resolutions as int64 of the same shape; anything but whole numbers 1..16 is an `InputError`."""
    values = np.asarray(bits)
    if values.dtype.kind not in "iuf" or values.dtype.kind == "b":
        raise InputError(f"{name}={bits!r} must be a whole number {MIN_BITS}..{MAX_BITS}")
    wrong = ~((values >= MIN_BITS) & (values <= MAX_BITS) & (values == np.floor(values)))
    if wrong.any():
        raise InputError(f"{name}={values[wrong].flat[0]:g} must be a whole number {MIN_BITS}..{MAX_BITS}")
    return values.astype(np.int64)


def needed_bits(rows: np.ndarray, dac_bits: np.ndarray, bits_per_cell: np.ndarray) -> np.ndarray:
    """Bits that hold every possible sum of a column: ceil(log2(rows (2^dac - 1) (2^cell - 1) + 1)).

    ``rows`` are read at once; all arguments broadcast. Source: the lossless rule behind NeuroSim issue 35
    and MICSim issue 1.
    """
    levels = np.asarray(rows) * (2.0 ** np.asarray(dac_bits) - 1) * (2.0 ** np.asarray(bits_per_cell) - 1)
    return np.ceil(np.log2(levels + 1))
