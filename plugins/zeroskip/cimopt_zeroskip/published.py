"""Published totals of ResNet18 and VGG11: what the paper's Fig 8 and Fig 9 were made from.

Read from data/published_*.csv: per layer its shape, per block the busy cycles of one image. Source: result
files in the history of the authors' public simulator (see data/SOURCES.md).
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from cimopt.errors import unknown_name
from cimopt.types import Layer, Workload
from cimopt_zeroskip.mapping import ArraySpec, map_layer
from cimopt_zeroskip.work import LayerWork, TotalsWork, uniform_work

NETWORKS = ("resnet18", "vgg11")
CHIP_SIZES = {"resnet18": (5472, 8192, 12288, 16384, 24576), "vgg11": (4600, 8192, 12288, 16384, 24576)}


def published_rows(network: str) -> list[dict[str, str]]:
    """One row per layer."""
    if network not in NETWORKS:
        raise unknown_name("published network", network, NETWORKS)
    path = Path(__file__).with_name("data") / f"published_{network}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def published_layers(network: str) -> tuple[Layer, ...]:
    """The network's convolutions in the authors' order."""
    return tuple(_layer(row) for row in published_rows(network))


def published_workload(network: str) -> Workload:
    """The network as a workload."""
    return Workload(f"{network}_paper", published_layers(network), source="Breaking Barriers (Crafton et al., 2020)")


def _layer(row: dict[str, str]) -> Layer:
    k, s, out, pad = (int(row[key]) for key in ("kernel", "stride", "out", "padding"))
    channels = int(row["in_channels"]), int(row["out_channels"])
    return Layer(row["layer"], "conv", *channels, (k, k), (s, s), (pad,) * 4, out_map=(out, out))


def published_works(network: str, *, skip: bool = True, used_rows_only: bool = False) -> list[LayerWork]:
    """Work of every layer at 128 x 128 arrays, 8 rows per read: totals (closed form), or exact without skipping."""
    spec = ArraySpec(skip=skip, used_rows_only=used_rows_only)
    works: list[LayerWork] = []
    for row, layer in zip(published_rows(network), published_layers(network), strict=True):
        mapped = map_layer(layer, spec)
        total = _numbers(row["block_busy"])
        ones = _numbers(row["block_ones_share"]) * mapped.patches * spec.xbar_rows * spec.input_bits
        if skip:
            works.append(TotalsWork(mapped, total, float(row["sync_cycles"]), ones))
        else:
            works.append(uniform_work(mapped, ones))
    return works


def _numbers(text: str) -> np.ndarray:
    return np.array([float(v) for v in text.split()])


def published_bottlenecks(network: str) -> dict[int, dict[str, int]]:
    """Cycles of the slowest layer by arrays and by the paper's policy name."""
    path = Path(__file__).with_name("data") / "published_bottlenecks.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["network"] == network]
    return {int(r["n_arrays"]): {k: int(v) for k, v in r.items() if k not in ("network", "n_arrays")} for r in rows}
