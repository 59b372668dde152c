"""Real activations to unsigned n-bit codes, one scale per tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cimopt.errors import InputError


@dataclass(frozen=True)
class Codes:
    """Codes, the code of the value 0, and the value of one step."""

    values: np.ndarray
    zero_point: int
    step: float


def quantise(values: np.ndarray, bits: int, percentile: float = 100.0) -> Codes:
    """``clip(round(x / s * (2**bits - 1)))`` with s the largest value (percentile 100) or that percentile.

    Tensors with negative values get a zero point: codes count from the lowest value (or its percentile), as
    unsigned word-line inputs demand, and padding is that zero point.
    """
    if not 1 <= bits <= 16:
        raise InputError(f"bits={bits} must be in 1..16")
    if not 0 < percentile <= 100:
        raise InputError(f"percentile={percentile} must be in (0, 100]")
    if not np.isfinite(values).all():
        raise InputError("an activation is not finite")
    top = float(np.percentile(values, percentile))
    low = min(0.0, float(np.percentile(values, 100 - percentile))) if values.min() < 0 else 0.0
    codes = (1 << bits) - 1
    step = (max(top, 0.0) - low) / codes or 1.0
    zero = round(-low / step)
    kind = np.uint8 if bits <= 8 else np.uint16
    return Codes(np.clip(np.rint(values / step) + zero, 0, codes).astype(kind), zero, step)
