"""Synthetic ones for networks without a profile. Labelled: every such profile says `synthetic = True`.

Ones of a plane in a block are beta-binomial (mean = the plane's density, correlation `RHO` between rows), with a
latent variable per patch that its blocks and planes share, correlated along the row of patches. Independent
random bits would understate how much blocks and patches differ by a factor of 2.4 to 4.3 in variance.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from cimopt.types import Layer, Workload, fingerprint
from cimopt_zeroskip.mapping import MappedLayer
from cimopt_zeroskip.published import NETWORKS, published_rows

# Correlation between rows of a block: 0.011-0.026 give the measured 2.4-4.3 x binomial variance at 128 rows.
RHO = 0.018
# Share of the latent that the blocks of a patch have in common, and its correlation from patch to patch. Medians
# over the layers of our three profiles: blocks of one patch 0.15-0.37, neighbouring patches 0.36-0.68.
COMMON, NEIGHBOUR = 0.4, 0.6
# Density of plane k over the mean density, LSB first: mean of our three profiles.
PLANE_SHAPE = (1.32, 1.31, 1.29, 1.24, 1.15, 0.95, 0.58, 0.16)
# Inner layers of a network nobody measured: linear in depth, between our profiles' first and last quarters.
DENSITY_FIRST, DENSITY_LAST = 0.28, 0.10
# Pixels: all planes near one half (own profiles, first layer).
PIXEL_DENSITY = 0.50
# The authors' quantisation keeps 7 bits after ReLU: their eighth plane is empty.
AUTHORS_BITS = 7
TABLE_SIZE = 4096
ORIGINS = {"resnet18": "resnet18", "vgg11_cifar10": "vgg11"}


@dataclass
class SyntheticProfile:
    """Same interface as `cimopt_zeroskip.profile.Profile`, ones drawn instead of counted.

    Attributes:
        name: the workload's name.
        layers: its layers with stored weights.
        densities: per layer, share of ones in each plane, ``(input_bits,)``.
        n_images: independent draws.
        seed: of the draws.
    """

    name: str
    layers: tuple[Layer, ...]
    densities: tuple[tuple[float, ...], ...]
    n_images: int = 1
    seed: int = 0
    synthetic = True

    def __post_init__(self) -> None:
        self._counts: dict[tuple[int, int, bytes], np.ndarray] = {}

    @property
    def input_bits(self) -> int:
        return len(self.densities[0])

    @property
    def fingerprint(self) -> str:
        return fingerprint([self.name, self.densities, self.n_images, self.seed, RHO, COMMON, NEIGHBOUR])

    def find(self, layer: Layer, taken: set[int]) -> int:
        """Index of a layer of the workload this was made for."""
        for i, one in enumerate(self.layers):
            if i not in taken and one == layer:
                return i
        return self.layers.index(layer)

    def counts(self, index: int, mapped: MappedLayer, image: int) -> np.ndarray:
        """Ones int16 ``(patches, blocks, input_bits)``; the same every time for the same blocks."""
        key = (index, image, mapped.bounds.tobytes())
        if key not in self._counts:
            rng = np.random.default_rng([self.seed, index, image, mapped.blocks, mapped.rows])
            self._counts[key] = beta_binomial(rng, mapped.patches, mapped.block_rows, self.densities[index])
        return self._counts[key]

    def forget(self) -> None:
        """Drop the kept counts."""
        self._counts.clear()


def beta_binomial(
    rng: np.random.Generator, patches: int, block_rows: Sequence[int], densities: Sequence[float], rho: float = RHO
) -> np.ndarray:
    """Ones int16 ``(patches, blocks, planes)``: blocks of a patch share part of their latent, planes all of it."""
    blocks = len(block_rows)
    common = _chain(rng.standard_normal(patches))[:, None]
    latent = np.sqrt(COMMON) * common + np.sqrt(1 - COMMON) * _chain(rng.standard_normal((patches, blocks)))
    place = _uniform(latent)
    out = np.empty((patches, blocks, len(densities)), dtype=np.int16)
    for k, mean in enumerate(densities):
        share = _beta_quantiles(rng, mean, rho)[place]
        out[:, :, k] = rng.binomial(np.asarray(block_rows), share)
    return out


def _chain(noise: np.ndarray) -> np.ndarray:
    """Standard normal along axis 0 with correlation `NEIGHBOUR` from one to the next."""
    out, step = noise.copy(), np.sqrt(1 - NEIGHBOUR**2)
    for i in range(1, len(out)):
        out[i] = NEIGHBOUR * out[i - 1] + step * noise[i]
    return out


def _uniform(latent: np.ndarray) -> np.ndarray:
    """Rank of every value, scaled to a place in a table of quantiles."""
    rank = np.empty(latent.size, dtype=np.int64)
    rank[np.argsort(latent, axis=None, kind="stable")] = np.arange(latent.size)
    return (rank * TABLE_SIZE // latent.size).reshape(latent.shape)


def _beta_quantiles(rng: np.random.Generator, mean: float, rho: float) -> np.ndarray:
    """Sorted draws of a beta distribution with this mean and intra-class correlation, ``(TABLE_SIZE,)``."""
    if not 0 < mean < 1:
        return np.full(TABLE_SIZE, float(mean))
    total = (1 - rho) / rho
    draws = np.sort(rng.beta(mean * total, (1 - mean) * total, TABLE_SIZE))
    return np.clip(draws * (mean / draws.mean()), 0.0, 1.0)  # the table's mean is the density itself


def synthetic_profile(workload: Workload, *, n_images: int = 1, seed: int = 0) -> SyntheticProfile:
    """Densities: the authors' measured ones for ResNet18 and VGG11, published estimates for VGG16 and AlexNet,
    else falling linearly with depth from 0.28 to 0.10; first layers read pixels.
    """
    layers = tuple(layer for layer in workload.layers if not layer.dynamic)
    # Measured densities belong to networks written layer by layer; a family lists equal layers once.
    name = workload.name if all(layer.repeats == 1 for layer in layers) else ""
    places, n = _places(layers)
    shares = tuple(_planes(name, place, n) for place in places)
    return SyntheticProfile(workload.name, layers, shares, n_images, seed)


def _places(layers: Sequence[Layer]) -> tuple[list[int], int]:
    """Where each layer first stands in the network with all repeats written out, and how many layers that has."""
    ends = np.cumsum([layer.repeats for layer in layers])
    return [int(end - layer.repeats) for end, layer in zip(ends, layers, strict=True)], int(ends[-1]) if len(
        ends
    ) else 0


def dynamic_profile(workload: Workload, *, n_images: int = 1, seed: int = 0) -> SyntheticProfile:
    """Inputs of a network's products of two activations: always drawn, densities by their depth in the network."""
    places, n = _places(workload.layers)
    found = [(place, layer) for place, layer in zip(places, workload.layers, strict=True) if layer.dynamic]
    shares = tuple(_by_depth(max(place, 1), n) for place, _ in found)
    return SyntheticProfile(workload.name, tuple(layer for _, layer in found), shares, n_images, seed)


def _planes(network: str, index: int, n_layers: int) -> tuple[float, ...]:
    measured = _authors().get(ORIGINS.get(network, ""), ())
    if index < len(measured):
        return _shaped(measured[index], AUTHORS_BITS) if index else (measured[0],) * len(PLANE_SHAPE)
    known = _estimates().get((network, index))
    if known:
        return known
    if index == 0:
        return (PIXEL_DENSITY,) * len(PLANE_SHAPE)
    return _by_depth(index, n_layers)


def _by_depth(index: int, n_layers: int) -> tuple[float, ...]:
    depth = (index - 1) / max(1, n_layers - 2)
    return _shaped(DENSITY_FIRST + (DENSITY_LAST - DENSITY_FIRST) * depth, len(PLANE_SHAPE))


def _shaped(density: float, useful_bits: int) -> tuple[float, ...]:
    """A mean density over all planes, distributed as `PLANE_SHAPE` over the useful ones."""
    shape = np.array(PLANE_SHAPE)
    shape[useful_bits:] = 0
    return tuple(float(v) for v in np.minimum(density * shape * len(shape) / shape.sum(), 1.0))


@cache
def _authors() -> dict[str, tuple[float, ...]]:
    """Share of ones per layer of the published runs."""
    return {n: tuple(float(row["ones_share_used_rows"]) for row in published_rows(n)) for n in NETWORKS}


@cache
def _estimates() -> dict[tuple[str, int], tuple[float, ...]]:
    """Published estimates: (network, layer) -> share of ones per plane."""
    with (Path(__file__).with_name("data") / "plane_densities.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["network"], int(row["layer"])): tuple(float(row[f"plane{k}"]) for k in range(8)) for row in rows}
