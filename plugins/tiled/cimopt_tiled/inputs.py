"""How the bits of an input enter the rows of an array, and what other widths than 8 bits make of its cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cimopt_tiled.counts import IO_BITS
from cimopt_tiled.structure import N_BASIS

# Pulses of an 8-bit input at full scale in the tables (temporal code).
FULL_SCALE_PULSES = 2**IO_BITS - 1


@dataclass(frozen=True)
class InputCode:
    """Inputs enter ``step_bits`` at a time, each step a temporal code of pulses.

    ``rows_by_pulse``: a row costs its pulses and nothing else (drivers of a component set, not of the tables).
    """

    step_bits: int = IO_BITS
    rows_by_pulse: bool = False

    def steps(self, bits: int | np.ndarray = IO_BITS) -> np.ndarray:
        """Steps of an input of so many bits, one after another."""
        return -(-np.asarray(bits) // self.step_bits)

    def step_levels(self, bits: int | np.ndarray = IO_BITS) -> np.ndarray:
        """Largest value of one step."""
        return 2 ** np.minimum(bits, self.step_bits) - 1

    def pulses(self, bits: int | np.ndarray = IO_BITS) -> np.ndarray:
        """Pulses of an input at full scale, all steps together."""
        return self.steps(bits) * self.step_levels(bits)

    def scaled(self, coefficients: np.ndarray) -> np.ndarray:
        """Energy factors of (1, a, w, a*w) per 8-bit input, from those for 255 pulses, ``(m, 4)``.

        Every step pays what does not depend on the input; pulses at full scale are (2^bits - 1) per step.
        A bit is taken to be one with the mean input's probability, which keeps the mean.
        """
        steps, pulses = self.steps(), self.pulses() / FULL_SCALE_PULSES
        return coefficients * np.array([steps, pulses, steps, pulses])

    def factors(self, bits: np.ndarray) -> np.ndarray:
        """Cost of a cell and of a row for inputs of ``bits`` ``(k,)`` over that for 8 bits, on (1, a, w, a*w).

        float ``(k, 2, 4)``; exactly 1 for 8 bits. The mean input is a share of full scale, whatever the width.
        """
        steps, pulses = self.steps(bits) / self.steps(), self.pulses(bits) / self.pulses()
        cell = np.stack([steps, pulses, steps, pulses], axis=1)
        row = np.repeat(pulses[:, None], N_BASIS, axis=1) if self.rows_by_pulse else cell
        return np.stack([cell, row], axis=1)
