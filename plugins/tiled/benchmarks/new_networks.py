"""How long one design on a network never seen before takes: what a search over networks pays per trial.

    python plugins/tiled/benchmarks/new_networks.py [--calls 300]

ResNet18 with random widths, one random design each, through `evaluate()` of one warm evaluator. Processor time, so
that other programs on the machine count little.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from dataclasses import replace

import numpy as np
from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.physical import TiledPhysical

from cimopt.testing import space_named
from cimopt.types import Workload
from cimopt.workloads import load

WARM_UP = 10


def variant(net: Workload, rng: np.random.Generator, name: str) -> Workload:
    """The network with each of its four widths drawn anew."""
    widths = {c: int(rng.integers(4, 129)) * c // 64 for c in (64, 128, 256, 512)}
    return Workload(
        name,
        tuple(
            replace(
                layer,
                in_channels=widths.get(layer.in_channels, layer.in_channels),
                out_channels=widths.get(layer.out_channels, layer.out_channels),
            )
            for layer in net.layers
        ),
    )


def measure(kind: type, space_name: str, calls: int) -> list[float]:
    """Seconds of each call."""
    rng, space, net, model = np.random.default_rng(0), space_named(space_name), load("resnet18"), kind()
    seconds = []
    for i in range(calls + WARM_UP):
        one, design = variant(net, rng, f"net{i}"), space.designs(space.sample(1, rng))
        began = time.process_time()
        model.evaluate(design, [one])
        seconds.append(time.process_time() - began)
    return seconds[WARM_UP:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    for kind in (TiledEvaluator, TiledPhysical):
        for space in ("rram", "sram"):
            ms = [1e3 * s for s in measure(kind, space, options.calls)]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{kind.name:<16} {space:<5} median {statistics.median(ms):.2f} ms, mean {statistics.mean(ms):.2f} ms, "
                  f"peak {peak:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
