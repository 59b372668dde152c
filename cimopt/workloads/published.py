"""The layers of the nine networks exactly as the joint co-optimization study evaluated them.

Source: public workload files of arXiv 2603.03880 (see published/PROVENANCE.md). These are
*their* layers, for like-for-like comparison with published results, not the networks:

- the attention products of mobilebert, vision_transformer and gpt2_medium lack one sequence
  axis (far too few MACs) and are listed like ordinary weights;
- resnet50 is a pruned variant;
- strides are given here, but the published runs ignored them; padding is not recorded.

For the right shapes use the zoo.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from cimopt.errors import unknown_name
from cimopt.types import MAX_BITS_PER_CELL, Layer, Workload

LAYERS_FILE = Path(__file__).with_name("published") / "layers.csv"
SOURCE = "public workload files of the joint hardware-workload co-optimization study, arXiv 2603.03880 (MIT)"
_SLICES = tuple(f"mean_weight_slice_{bits}b" for bits in range(1, MAX_BITS_PER_CELL + 1))


def published_names() -> tuple[str, ...]:
    """Networks in file order."""
    return tuple(_rows())


def load_published(name: str) -> Workload:
    """One network of `layers.csv`; its variant is "published"."""
    rows = _rows()
    if name not in rows:
        raise unknown_name("published workload", name, rows)
    return Workload(name=name, layers=tuple(map(_layer, rows[name])), variant="published", source=SOURCE)


@cache
def _rows() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    with LAYERS_FILE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["workload"], []).append(row)
    return found


def _layer(row: dict[str, str]) -> Layer:
    """C and M are per group in the file, channels are totals in a `Layer`."""
    c, m, r, s, p, q, g, n = (int(row[key]) for key in "CMRSPQGN")
    is_linear = r == s == q == g == 1
    return Layer(
        name=f"layer{row['layer']}",
        kind="linear" if is_linear else "conv",
        in_channels=c * g,
        out_channels=m * g,
        kernel=(r, s),
        stride=(int(row["stride_h"]), int(row["stride_w"])),
        groups=g,
        out_map=(p, q),
        batch=n,
        mean_input=float(row["mean_input"]),
        mean_weight_slice=tuple(float(row[key]) for key in _SLICES),
    )
