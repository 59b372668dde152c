"""How many designs x 4 networks a second one core evaluates, end to end through `evaluate()`.

    python plugins/tiled/benchmarks/throughput.py [--designs 200000] [--spaces rram,sram,sram9]

Random designs of each space, both presets. Cold: the first batch, which fills the stage tables (and, the very
first time, compiles). Warm: the median of five more batches of other random designs.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
import time

import numpy as np
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.layers import layer_set
from cimopt_tiled.physical import TiledPhysical
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import Kernel, sum_layers

from cimopt.evaluators.base import Evaluator
from cimopt.testing import space_named
from cimopt.types import Workload
from cimopt.workloads import load

PRESETS = {"published": (TiledEvaluator, "published"), "physical": (TiledPhysical, "zoo")}
NETWORKS = ("resnet18", "vgg16", "alexnet", "mobilenet_v3")
ROUNDS = 5


def measure(model: Evaluator, space_name: str, nets: list[Workload], n: int) -> tuple[float, float, float]:
    """Seconds of the first batch, median seconds of a warm one, and the share of designs with metrics."""
    space, rng = space_named(space_name), np.random.default_rng(0)
    model.evaluate(space.designs(space.sample(64, rng)), nets)  # compiles
    batches = [space.designs(space.sample(n, rng)) for _ in range(ROUNDS + 1)]
    seconds, ok = [], 0.0
    for designs in batches:
        began = time.perf_counter()
        ok = model.evaluate(designs, nets).ok.mean()
        seconds.append(time.perf_counter() - began)
    return seconds[0], statistics.median(seconds[1:]), ok


def whole_space_structures(nets: list[Workload]) -> float:
    """Seconds for the 36,000 structures of the rram space: the cold start of its largest table."""
    sizes = (32, 64, 128, 256, 512)
    choices = (range(1, 9), sizes, sizes, (4, 8, 16, 32, 64, 128), (4, 8, 16, 32, 64), (1, 2, 4, 8, 16, 32))
    grid = np.array(list(itertools.product(*choices)))
    layers = layer_set(nets, stride_ignored=True, groups_ignored=True)
    kernel = Kernel.of("rram", Quirks())
    sum_layers(grid[:1], layers.dims, layers.steps, layers.widths, layers.basis, layers.driven, kernel)
    began = time.perf_counter()
    sum_layers(grid, layers.dims, layers.steps, layers.widths, layers.basis, layers.driven, kernel)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", type=int, default=200_000)
    parser.add_argument("--spaces", default="rram,sram,sram9")
    parser.add_argument("--presets", default=",".join(PRESETS))
    options = parser.parse_args()
    print(
        f"{'preset':<10} {'space':<7} {'warm designs/s':>15} {'first batch s':>14} {'with metrics':>13} {'peak MB':>8}"
    )
    for preset in options.presets.split(","):
        kind, source = PRESETS[preset]
        nets = [load(name, source=source) for name in NETWORKS]
        for space in options.spaces.split(","):
            first, warm, ok = measure(kind(), space, nets, options.designs)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{preset:<10} {space:<7} {options.designs / warm:>15,.0f} {first:>14.2f} {ok:>13.1%} {peak:>8.0f}")
    published = [load(name, source="published") for name in NETWORKS]
    print(f"all 36,000 structures of the rram space, published preset: {whole_space_structures(published):.1f} s")


if __name__ == "__main__":
    main()
