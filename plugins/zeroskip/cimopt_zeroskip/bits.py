"""Ones per bit plane, and the cycles of one array operation that follow from them.

Source: "Breaking Barriers" (Crafton et al., 2020), sections II and IV. An operation feeds the bit planes of
its inputs one after the other; for every plane each column group is read in turn, up to ``rows_per_read``
rows that carry a one at a time. An empty plane still takes one read.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np

from cimopt.errors import InputError

LANES = 8  # planes that one table word counts
MAX_INPUT_BITS = 16
MAX_BLOCK_ROWS = np.iinfo(np.int16).max  # ones of a block are kept in 16 bits


def _forms(compiled: bool) -> ModuleType:
    """The compiled or the plain hot loops."""
    if compiled:
        from cimopt_zeroskip import kernels

        return kernels
    from cimopt_zeroskip import plain

    return plain


@cache
def lane_table() -> np.ndarray:
    """uint64 ``(256,)``: bit k of a byte, as a one in byte k of the word."""
    value = np.arange(256, dtype=np.uint64)
    lanes = np.zeros(256, dtype=np.uint64)
    for k in range(LANES):
        lanes |= ((value >> np.uint64(k)) & np.uint64(1)) << np.uint64(8 * k)
    lanes.setflags(write=False)
    return lanes


def count_ones(
    flat: np.ndarray,
    bases: np.ndarray,
    offsets: np.ndarray,
    bounds: np.ndarray,
    input_bits: int,
    *,
    compiled: bool = True,
) -> np.ndarray:
    """Ones per plane of every (patch, block), int16 ``(patches, blocks, input_bits)``, LSB first.

    Args:
        flat: padded inputs, uint8 or uint16, 1-d.
        bases: int64 ``(patches,)``, place of a patch; offsets: int64 ``(rows,)``, of a row from there.
        bounds: int64 ``(blocks + 1,)``, rows at which blocks start and end.
        input_bits: 1..16.
        compiled: numba loop (True) or plain NumPy, equal results.
    """
    _check_bits("input_bits", input_bits)
    n_bytes = -(-input_bits // LANES)
    counts = np.zeros((n_bytes, len(bases), len(bounds) - 1, LANES), dtype=np.int16)
    for i in range(n_bytes):
        part = np.ascontiguousarray((flat >> (LANES * i)) & 255, dtype=np.uint8) if flat.dtype != np.uint8 else flat
        _forms(compiled).count_planes(part, bases, offsets, bounds, lane_table(), counts[i])
    if n_bytes == 1:
        return counts[0, :, :, :input_bits]
    return np.concatenate(list(counts), axis=2)[:, :, :input_bits]


def popcounts(patches: np.ndarray, *, rows_per_block: int, input_bits: int = 8) -> np.ndarray:
    """Ones in each bit plane of each block of rows.

    Args:
        patches: unsigned inputs ``(patches, rows)``, values 0..2**input_bits - 1, rows in array order.
        rows_per_block: rows of one array; the last block may hold fewer.
        input_bits: bits of an input, 1..16.

    Returns:
        int32 ``(patches, blocks, input_bits)``, plane 0 is the least significant bit.
    """
    values = _unsigned(np.asarray(patches), input_bits)
    _check_rows(rows_per_block)
    n, rows = values.shape
    bounds = np.append(np.arange(0, rows, rows_per_block), rows).astype(np.int64)
    bases = np.arange(n, dtype=np.int64) * rows
    counts = count_ones(values.reshape(-1), bases, np.arange(rows, dtype=np.int64), bounds, input_bits)
    return counts.astype(np.int32)


def cost_table(
    rows: int, rows_per_read: int | np.ndarray, input_bits: int, weight_bits: int, floor: int = 1
) -> np.ndarray:
    """Cycles of plane k when n ones are on, int64 ``(input_bits, rows + 1)``: sum over columns of
    ``max(floor, ceil(n / rows_per_read[k, j]))``. ``floor`` 0 skips empty planes altogether.
    """
    per_read = _reads_table(rows_per_read, input_bits, weight_bits)
    n = np.arange(rows + 1, dtype=np.int64)
    reads = -(-n[None, None, :] // per_read[:, :, None])
    return np.maximum(reads, floor).sum(axis=1)


def op_cycles(
    popcounts: np.ndarray,
    *,
    rows_per_read: int | np.ndarray,
    weight_bits: int = 8,
    skip: bool = True,
    rows_per_block: int = 128,
    floor: int = 1,
) -> np.ndarray:
    """Cycles of one array operation for every patch and block (one cycle = one read of one column group).

    Args:
        popcounts: ``(patches, blocks, input_bits)``, from `popcounts`.
        rows_per_read: rows one read can resolve, a number or a table ``(input_bits, weight_bits)``.
        weight_bits: columns that share a converter and are read in turn.
        skip: zero-skipping; without it every row of the array is read, used or not.
        rows_per_block: rows of the array.
        floor: reads that an empty plane still takes (paper: 1).

    Returns:
        int64 ``(patches, blocks)``: ``sum_k sum_j max(floor, ceil(n_k / rows_per_read[k, j]))``.
    """
    counts = np.asarray(popcounts)
    _check_rows(rows_per_block)
    if counts.ndim != 3 or counts.dtype.kind not in "iu":
        raise InputError(f"popcounts must be whole numbers (patches, blocks, bits), got {counts.dtype} {counts.shape}")
    if counts.size and (counts.min() < 0 or counts.max() > rows_per_block):
        raise InputError(f"popcounts must lie in 0..rows_per_block={rows_per_block}")
    bits = counts.shape[2]
    table = cost_table(rows_per_block, rows_per_read, bits, weight_bits, floor)
    if not skip:
        return np.full(counts.shape[:2], table[:, rows_per_block].sum(), dtype=np.int64)
    return cycles_by_block(counts.astype(np.int16), table).T.astype(np.int64)


def cycles_by_block(counts: np.ndarray, table: np.ndarray, *, compiled: bool = True) -> np.ndarray:
    """Op cycles, int32 ``(blocks, patches)``, from int16 counts ``(patches, blocks, bits)`` and a cost table."""
    out = np.empty((counts.shape[1], counts.shape[0]), dtype=np.int32)
    _forms(compiled).sum_costs(counts, table, out)
    return out


def _reads_table(rows_per_read: int | np.ndarray, input_bits: int, weight_bits: int) -> np.ndarray:
    _check_positive("weight_bits", weight_bits)
    given = np.asarray(rows_per_read)
    if given.dtype.kind not in "iu" or (given.size and given.min() < 1):
        raise InputError(f"rows_per_read={rows_per_read!r} must be whole numbers >= 1")
    if given.ndim and given.shape != (input_bits, weight_bits):
        raise InputError(
            f"rows_per_read has shape {given.shape}, expected a number or (input_bits, weight_bits) = "
            f"({input_bits}, {weight_bits})"
        )
    return np.broadcast_to(given.astype(np.int64), (input_bits, weight_bits))


def _unsigned(patches: np.ndarray, input_bits: int) -> np.ndarray:
    _check_bits("input_bits", input_bits)
    if patches.ndim != 2 or patches.dtype.kind not in "iu":
        raise InputError(f"patches must be whole numbers (patches, rows), got {patches.dtype} {patches.shape}")
    if patches.size and (patches.min() < 0 or patches.max() >= 1 << input_bits):
        raise InputError(f"inputs must lie in 0..{(1 << input_bits) - 1} (input_bits={input_bits}, unsigned)")
    return np.ascontiguousarray(patches, dtype=np.uint8 if input_bits <= LANES else np.uint16)


def _check_bits(key: str, value: int) -> None:
    if not (isinstance(value, int | np.integer) and 1 <= value <= MAX_INPUT_BITS):
        raise InputError(f"{key}={value!r} must be a whole number in 1..{MAX_INPUT_BITS}")


def _check_rows(rows_per_block: int) -> None:
    if not (isinstance(rows_per_block, int | np.integer) and 1 <= rows_per_block <= MAX_BLOCK_ROWS):
        raise InputError(f"rows_per_block={rows_per_block!r} must be a whole number in 1..{MAX_BLOCK_ROWS}")


def _check_positive(key: str, value: int) -> None:
    if not (isinstance(value, int | np.integer) and value >= 1):
        raise InputError(f"{key}={value!r} must be a whole number >= 1")
