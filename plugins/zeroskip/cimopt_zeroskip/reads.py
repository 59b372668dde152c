"""A functional model of the reads: partial sums, bit for bit, from what the converters see.

Weights are stored offset binary (w + 2**(bits-1)) in ceil(weight_bits / bits_per_cell) cells of one row. Each
plane of the inputs is fed in turn; a read drives the next rows that carry a one, at most ``rows_per_read`` of
them, and every column's sum is digitised, shifted and added (Breaking Barriers, section II).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from cimopt.errors import InputError
from cimopt_zeroskip.mapping import ArraySpec


@dataclass(frozen=True)
class PartialSums:
    """Result of one operation on one block.

    Attributes:
        sums: int64 ``(outputs,)``, equal to inputs @ weights.
        cycles: reads of one column group times columns that share a converter.
        largest: the largest column sum a converter saw.
    """

    sums: np.ndarray
    cycles: int
    largest: int


def read_block(inputs: np.ndarray, weights: np.ndarray, spec: ArraySpec) -> PartialSums:
    """One operation: unsigned ``inputs`` ``(rows,)``, signed ``weights`` ``(rows, outputs)``."""
    rows = len(inputs)
    if rows > spec.xbar_rows or len(weights) != rows:
        raise InputError(f"a block holds up to {spec.xbar_rows} rows, got {rows} inputs and {len(weights)} weights")
    cells = _cells(weights, spec)
    total = np.zeros(weights.shape[1] * spec.cells_per_weight, dtype=np.int64)
    reads = largest = 0
    for k in range(spec.input_bits):
        on = (inputs.astype(np.int64) >> k) & 1
        for driven in _driven(on, spec):
            seen = on[driven] @ cells[driven]
            largest = max(largest, int(seen.max(initial=0)))
            total += seen << k
            reads += 1
    shifts = np.arange(spec.cells_per_weight) * spec.bits_per_cell
    stored = (total.reshape(-1, spec.cells_per_weight) << shifts).sum(axis=1)
    offset = 1 << (spec.weight_bits - 1)
    return PartialSums(stored - offset * int(inputs.sum(dtype=np.int64)), reads * spec.cols_per_adc, largest)


def _cells(weights: np.ndarray, spec: ArraySpec) -> np.ndarray:
    """Cell values, int64 ``(rows, outputs * cells_per_weight)``, least significant cell first."""
    offset = 1 << (spec.weight_bits - 1)
    stored = weights.astype(np.int64) + offset
    if stored.size and (stored.min() < 0 or stored.max() >= 2 * offset):
        raise InputError(f"weights must lie in {-offset}..{offset - 1} (weight_bits={spec.weight_bits})")
    shifts = np.arange(spec.cells_per_weight) * spec.bits_per_cell
    return ((stored[:, :, None] >> shifts) & ((1 << spec.bits_per_cell) - 1)).reshape(len(weights), -1)


def _driven(on: np.ndarray, spec: ArraySpec) -> list[np.ndarray]:
    """Rows of each read of one plane."""
    if spec.skip:
        ones = np.flatnonzero(on)
        cut = [ones[i : i + spec.rows_per_read] for i in range(0, len(ones), spec.rows_per_read)]
        return cut if cut or not spec.floor else [ones]
    rows = len(on) if spec.used_rows_only else spec.xbar_rows
    # Rows beyond the weights hold nothing: their reads take time and add nothing.
    return [np.arange(i, min(i + spec.rows_per_read, len(on))) for i in range(0, rows, spec.rows_per_read)]


def layer_output(patches: np.ndarray, weights: np.ndarray, spec: ArraySpec, bounds: np.ndarray) -> np.ndarray:
    """Sums of all blocks, int64 ``(patches, outputs)``: patches ``(patches, rows)``, weights ``(rows, outputs)``."""
    out = np.zeros((len(patches), weights.shape[1]), dtype=np.int64)
    for low, high in itertools.pairwise(bounds):
        for p, patch in enumerate(patches):
            out[p] += read_block(patch[low:high], weights[low:high], spec).sums
    return out
