"""Fig 9 of "Breaking Barriers": utilisation of the arrays, layer by layer, on the largest chip.

python experiments/zeroskip_fig9/run.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from cimopt_zeroskip.figures import chip_sizes, network_works, paper_runs
from cimopt_zeroskip.profile import load_shipped, shipped
from cimopt_zeroskip.published import published_bottlenecks, published_works

POLICIES = ("weight-based", "performance-based", "block-wise")
PAPER_CHIP = 24576


def main() -> None:
    """Print mean utilisations and draw them per layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("fig9.png"), help="plot to write")
    options = parser.parse_args()
    networks = {"resnet18 (paper's totals)": (published_works("resnet18"), PAPER_CHIP)}
    for name in shipped():
        works = network_works(load_shipped(name))
        networks[name] = works, chip_sizes(works)[-1]
    figure, axes = plt.subplots(len(networks), 1, figsize=(11, 3 * len(networks)))
    sys.stdout.write("| network | policy | mean over layers | weighted by arrays |\n|---|---|---|---|\n")
    for axis, (name, (works, n)) in zip(axes, networks.items(), strict=True):
        runs = paper_runs(works, n)
        for i, policy in enumerate(POLICIES):
            chip = runs[policy]
            shares = 100 * chip.layer_utilization
            mean, weighted = shares.mean(), np.average(shares, weights=chip.layer_arrays)
            sys.stdout.write(f"| {name} | {policy} | {mean:.1f} % | {weighted:.1f} % |\n")
            axis.bar(np.arange(len(works)) + 0.27 * (i - 1), shares, 0.25, label=policy)
            if "paper" in name:  # the same arrays, over the paper's own bottleneck
                scale = chip.cycles / published_bottlenecks("resnet18")[n][policy]
                axis.plot(np.arange(len(works)) + 0.27 * (i - 1), shares * scale, "k_", markersize=7)
        axis.set_title(
            f"{name}, {n} arrays" + (" (dashes: over the paper's cycles)" if "paper" in name else ""), fontsize=9
        )
        axis.set_ylabel("utilisation, %")
        axis.set_ylim(0, 105)
    axes[0].legend(fontsize=8, ncols=3)
    axes[-1].set_xlabel("layer")
    figure.tight_layout()
    figure.savefig(options.out, dpi=70)


if __name__ == "__main__":
    main()
