"""Fig 6 of "Breaking Barriers": cycles of the blocks of one layer against the share of ones they receive.

python experiments/zeroskip_fig6/run.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from cimopt_zeroskip.figures import block_points, fit_line, network_works, spread
from cimopt_zeroskip.mapping import ArraySpec
from cimopt_zeroskip.profile import load_shipped
from cimopt_zeroskip.published import published_works
from cimopt_zeroskip.work import LayerWork

# The paper's layers 10 and 15 are these, counted from 0.
PAPER_LAYERS = (10, 15)


def full_layers(works: list[LayerWork]) -> list[LayerWork]:
    """The two deepest 3x3 layers with 9 and 18 blocks (or the most blocks), all filled to the last row."""
    even = [w for w in works if w.mapped.blocks > 1 and w.mapped.rows % w.mapped.spec.xbar_rows == 0]
    spatial = [w for w in even if w.mapped.layer.kernel == (3, 3)]
    chosen = [[w for w in spatial if w.mapped.blocks == n] for n in (9, 18)]
    return [c[0] for c in chosen if c]


def main() -> None:
    """Print the spreads and draw the blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("fig6.png"), help="plot to write")
    options = parser.parse_args()
    paper = published_works("resnet18")
    groups = {"resnet18, paper's run": [paper[i] for i in PAPER_LAYERS]}
    for name in ("resnet50_thin", "vgg16_trunk"):
        for order in ("kkc", "ckk"):
            works = network_works(load_shipped(name), ArraySpec(row_order=order))
            groups[f"{name}, rows {order}"] = full_layers(works)
    figure, axis = plt.subplots(figsize=(7, 4.5))
    sys.stdout.write(
        "| network | layer | blocks | cycles per operation | slowest / fastest - 1 |\n|---|---|---|---|---|\n"
    )
    for name, works in groups.items():
        points = [block_points(work) for work in works]
        for work, (_, cycles) in zip(works, points, strict=True):
            sys.stdout.write(
                f"| {name} | {work.mapped.name} | {work.mapped.blocks} | {cycles.min():.1f}..{cycles.max():.1f} | "
                f"{100 * spread(cycles):.1f} % |\n"
            )
        x, y = (np.concatenate([p[i] for p in points]) for i in (0, 1))
        line = fit_line(x, y)
        axis.plot(x, y, "x" if "paper" in name else ".", label=f"{name}: {line.intercept:.1f} + {line.slope:.2f} %")
    axis.set_xlabel("ones a block receives, % of bits over 128 rows")
    axis.set_ylabel("mean cycles of an operation")
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(options.out, dpi=90)


if __name__ == "__main__":
    main()
