"""Arithmetic of sliding windows along one axis: paddings and output counts."""

from __future__ import annotations


def window_count(size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int = 1) -> int:
    """Positions of a window: floor((size + pads - span) / stride) + 1; below 1 when it does not fit."""
    span = dilation * (kernel - 1) + 1
    return (size + sum(pads) - span) // stride + 1


def same_pads(size: int, kernel: int, stride: int, dilation: int = 1, *, upper: bool = True) -> tuple[int, int]:
    """(begin, end) so that the output has ceil(size / stride) positions; the odd pixel at the end when `upper`."""
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if upper else (more, less)


def padded_window(
    size: int, kernel: int, stride: int, padding: str, explicit: tuple[int, int], dilation: int = 1
) -> tuple[int, int]:
    """(begin, end) for `padding` same, valid or explicit."""
    if padding == "same":
        return same_pads(size, kernel, stride, dilation)
    return explicit if padding == "explicit" else (0, 0)
