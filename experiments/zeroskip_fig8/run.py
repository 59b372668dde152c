"""Fig 8 of "Breaking Barriers": throughput by allocation policy and chip size, and what it rests on.

python experiments/zeroskip_fig8/run.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from cimopt_zeroskip.chip import PAPER_POLICIES
from cimopt_zeroskip.figures import chip_sizes, fairer_runs, network_works, paper_runs, synthetic_works, unseen
from cimopt_zeroskip.profile import load, load_shipped, shipped
from cimopt_zeroskip.published import CHIP_SIZES, published_bottlenecks, published_works
from cimopt_zeroskip.work import LayerWork

from cimopt.workloads import load as load_workload

CLOCK_HZ = 1e8


def tmacs(works: list[LayerWork], cycles: float) -> float:
    """Fig 8's unit: 10^12 multiply-accumulates per second at 100 MHz."""
    return sum(w.mapped.macs for w in works) / cycles * CLOCK_HZ / 1e12


def table(name: str, works: list[LayerWork], sizes: tuple[int, ...]) -> dict[str, list[float]]:
    """Print bottleneck cycles and speedups on every chip; returns TMAC/s per policy."""
    curves: dict[str, list[float]] = {policy: [] for policy in PAPER_POLICIES}
    sys.stdout.write(f"\n### {name}\n\n| arrays (PEs) | {' | '.join(PAPER_POLICIES)} | speedups of block-wise |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for n in sizes:
        runs = paper_runs(works, n)
        cycles = [runs[policy].cycles for policy in PAPER_POLICIES]
        ratios = " / ".join(f"{c / cycles[-1]:.3f}" for c in cycles[:-1])
        listed = " | ".join(f"{c:.0f}" for c in cycles)
        sys.stdout.write(f"| {n} ({-(-n // 64)}) | {listed} | {ratios} |\n")
        for policy, c in zip(PAPER_POLICIES, cycles, strict=True):
            curves[policy].append(tmacs(works, c))
    return curves


def explain(works: list[LayerWork], n: int) -> None:
    """On the largest chip: fairer baselines, the provable optimum, and the same without the first layer."""
    for what, some, size in (
        ("all layers", works, n),
        ("without the first layer", works[1:], chip_sizes(works[1:])[-1]),
    ):
        block = paper_runs(some, size)["block-wise"].cycles
        parts = [
            f"{k} {v.cycles / block:.3f}" for k, v in {**paper_runs(some, size), **fairer_runs(some, size)}.items()
        ]
        sys.stdout.write(f"\n{what}, {size} arrays, cycles over block-wise: {', '.join(parts)}\n")


def main() -> None:
    """Print tables and draw one panel per network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("fig8.png"), help="plot to write")
    parser.add_argument("--profile", type=Path, help="a profile of several images: plan on half, run on the other half")
    options = parser.parse_args()
    panels: dict[str, tuple[list[LayerWork], tuple[int, ...], str]] = {
        name: (published_works(name), CHIP_SIZES[name], name) for name in CHIP_SIZES
    }
    panels |= {name: (w := network_works(load_shipped(name)), chip_sizes(w), "") for name in shipped()}
    resnet = load_workload("resnet18")
    panels["resnet18, synthetic"] = (synthetic_works(resnet), CHIP_SIZES["resnet18"], "")
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5))
    for axis, (name, (works, sizes, paper)) in zip(axes.flat, panels.items(), strict=True):
        curves = table(name + (" (paper's totals, closed form)" if paper else ""), works, sizes)
        explain(works, sizes[-1])
        for policy, values in curves.items():
            (line,) = axis.plot(sizes, values, "-", label=policy)
            if paper:
                points = [tmacs(works, row[policy]) for row in published_bottlenecks(paper).values()]
                axis.plot(sizes, points, "x", color=line.get_color())
        axis.set_title(f"{name}: lines ours, crosses the paper's" if paper else name, fontsize=9)
        axis.set_xlabel("arrays")
        axis.set_ylabel("TMAC/s at 100 MHz")
    axes.flat[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(options.out, dpi=80)
    if options.profile:
        profile = load(options.profile)
        half = profile.n_images // 2
        first, second = (network_works(profile, images=range(*ends)) for ends in ((0, half), (half, profile.n_images)))
        for name, planned in {f"{half} images": first, "1 image": network_works(profile, images=[0])}.items():
            losses = {k: round(v, 3) for k, v in unseen(planned, second, chip_sizes(first)[-1]).items()}
            sys.stdout.write(
                f"\nplanned on {name}, run on {profile.n_images - half} others, cycles over own plan: {losses}\n"
            )


if __name__ == "__main__":
    main()
