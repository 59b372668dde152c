"""A person's images as network input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cimopt.errors import InputError, MissingExtraError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".gif")


@dataclass(frozen=True)
class Preparation:
    """How pixels 0..255 become inputs: ``(pixel * scale - mean) / std`` per channel, RGB or BGR.

    The defaults are the usual ones of networks trained on ImageNet.
    """

    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    bgr: bool = False


def image_files(folder: Path) -> list[Path]:
    """Images of a folder, by name."""
    if not folder.is_dir():
        raise InputError(f"--images {folder}: there is no such folder")
    found = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES)
    if not found:
        raise InputError(f"--images {folder}: no image in it ({', '.join(SUFFIXES)})")
    return found


def read_image(path: Path, size: tuple[int, int]) -> np.ndarray:
    """RGB pixels uint8 ``(height, width, 3)``: resized to cover ``size`` (height, width), centre cropped."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("reading images", "profile") from error
    try:
        image = Image.open(path).convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise InputError(f"{path} cannot be read as an image") from error
    scale = max(size[0] / image.height, size[1] / image.width)
    resized = image.resize((max(size[1], round(image.width * scale)), max(size[0], round(image.height * scale))))
    left, top = (resized.width - size[1]) // 2, (resized.height - size[0]) // 2
    return np.asarray(resized.crop((left, top, left + size[1], top + size[0])))


def prepare(pixels: Sequence[np.ndarray], how: Preparation, channels_first: bool, channels: int) -> np.ndarray:
    """Network input float32, ``(images, c, h, w)`` or ``(images, h, w, c)``."""
    batch = np.stack(pixels).astype(np.float32)
    if channels == 1:
        batch = batch.mean(axis=-1, keepdims=True)
    elif how.bgr:
        batch = batch[..., ::-1]
    mean, std = _per_channel("mean", how.mean, channels), _per_channel("std", how.std, channels)
    batch = (batch * np.float32(how.scale) - mean) / std
    return np.ascontiguousarray(np.moveaxis(batch, -1, 1) if channels_first else batch)


def _per_channel(key: str, values: tuple[float, ...], channels: int) -> np.ndarray:
    if len(values) == 1 or channels == 1:
        return np.full(channels, np.mean(values), dtype=np.float32)
    if len(values) != channels:
        raise InputError(f"--{key} has {len(values)} values, the network's input has {channels} channels")
    return np.array(values, dtype=np.float32)
