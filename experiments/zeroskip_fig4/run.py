"""Fig 4 of "Breaking Barriers": cycles of an array operation against the share of ones, per layer.

python experiments/zeroskip_fig4/run.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from cimopt_zeroskip.figures import cycles_per_full_array, fit_line, layer_points, network_works
from cimopt_zeroskip.profile import load_shipped, shipped
from cimopt_zeroskip.published import published_works


def main() -> None:
    """Print the fits and draw the points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("fig4.png"), help="plot to write")
    options = parser.parse_args()
    networks = {"resnet18 (paper's run)": published_works("resnet18"), "vgg11 (paper's run)": published_works("vgg11")}
    networks |= {f"{name} (our profile)": network_works(load_shipped(name)) for name in shipped()}
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    sys.stdout.write(
        "| network | ones over | cycles per operation | R2 | without first layer | R2 |\n|---|---|---|---|---|---|\n"
    )
    for axis, over in zip(axes, ("used", "array"), strict=True):
        for name, works in networks.items():
            x, y = layer_points(works, over=over)
            every, inner = fit_line(x, y), fit_line(x[1:], y[1:])
            sys.stdout.write(
                f"| {name} | {over} rows | {every.slope:.1f} x % + {every.intercept:.1f} | {every.r2:.3f} | "
                f"{inner.slope:.1f} x % + {inner.intercept:.1f} | {inner.r2:.3f} |\n"
            )
            axis.plot(x, y, "x" if "paper" in name else ".", label=name)
        axis.set_xlabel(f"ones in the inputs, % of bits over {over} rows")
    axes[0].set_ylabel("mean cycles of an operation")
    axes[1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(options.out, dpi=90)
    works = published_works("resnet18")
    x, y = layer_points(works)[0], cycles_per_full_array(works)
    line = fit_line(x[1:], y[1:])
    sys.stdout.write(
        f"\nThe authors' axis (barrier included, per MACs of a full array), ResNet18 without the first layer: "
        f"{line.slope:.1f} x % + {line.intercept:.1f}, R2 {line.r2:.3f}, range {y.min():.0f}..{y[1:].max():.0f}\n"
    )


if __name__ == "__main__":
    main()
