"""Speed and memory of the zero-skipping model on one core: run with `python plugins/zeroskip/benchmarks/speed.py`.

Prints: one image of ResNet18's shapes from activations to op cycles; a further design point, per policy; the same
steps in plain NumPy and Python; and, with --search N, N design points of a real profile through the evaluator.
With --profile FILE (made by scripts/make_profiles.py --images 16) also its peak memory.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from cimopt_zeroskip.bits import cost_table, count_ones, cycles_by_block
from cimopt_zeroskip.chip import plan_and_run
from cimopt_zeroskip.evaluator import ZeroSkipEvaluator
from cimopt_zeroskip.mapping import ArraySpec, map_layers, padded, patch_bases, row_offsets
from cimopt_zeroskip.nets import resnet50_thin
from cimopt_zeroskip.profile import load
from cimopt_zeroskip.published import published_layers, published_rows
from cimopt_zeroskip.work import TraceWork, trace_work, uniform_work

from cimopt.testing import space_named

# The authors' C simulator, one ResNet18 image at one design point (ZERO_SKIP measurements, extrapolated).
ORIGINAL_S = 235.0
N_ARRAYS = 24576


def say(text: str) -> None:
    """One line of the report."""
    sys.stdout.write(text + "\n")


def fastest(work: Callable[[], object], rounds: int) -> float:
    """Shortest of several rounds in s."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def activations() -> list[np.ndarray]:
    """Maps of ResNet18's shapes with the published share of ones in seven planes: only their number matters here."""
    rng, maps = np.random.default_rng(0), []
    for row, layer in zip(published_rows("resnet18"), published_layers("resnet18"), strict=True):
        size = (layer.out_map[0] - 1) * layer.stride[0] + layer.kernel[0] - 2 * layer.padding[0]
        share = min(1.0, 2 * float(row["ones_share_used_rows"]) * 8 / 7)
        values = rng.integers(0, 128, (size, size, layer.in_channels))
        maps.append((values * (rng.random(values.shape) < share)).astype(np.uint8))
    return maps


def to_op_cycles(maps: list[np.ndarray], compiled: bool) -> list[TraceWork]:
    """All layers of one image, from maps to op cycles."""
    works, spec = [], ArraySpec()
    table = cost_table(128, 8, 8, 8)
    for mapped, image in zip(map_layers(published_layers("resnet18"), spec), maps, strict=True):
        full = padded(image, mapped.layer)
        bases, offsets = patch_bases(mapped.layer, full.shape[1]), row_offsets(mapped.layer, full.shape[1], "kkc")
        counts = count_ones(full.reshape(-1), bases, offsets, mapped.bounds, 8, compiled=compiled)
        jobs = cycles_by_block(counts, table, compiled=compiled)[None]
        works.append(TraceWork(mapped, jobs, counts.sum(axis=(0, 2)).astype(float), compiled))
    return works


def fresh(works: list[TraceWork], compiled: bool) -> list[TraceWork]:
    """The same work without remembered makespans, so that every design point pays in full."""
    return [TraceWork(w.mapped, w.jobs, w.ones, compiled) for w in works]


def one_image() -> None:
    """Targets: under 100 ms to op cycles, under 20 ms per further design point."""
    maps = activations()
    works = to_op_cycles(maps, True)
    say("one image of ResNet18's shapes, one core")
    for compiled, name in ((True, "numba"), (False, "plain NumPy and heapq")):
        took = fastest(lambda compiled=compiled: to_op_cycles(maps, compiled), 5 if compiled else 1)
        say(f"  {name}: activations to op cycles {took * 1e3:.1f} ms")
        for policy, dataflow in (("weight", "layer"), ("profile", "layer"), ("profile", "block"), ("optimal", "block")):
            if not compiled and policy == "optimal":
                continue
            point = fastest(
                lambda p=policy, d=dataflow, c=compiled: plan_and_run(fresh(works, c), N_ARRAYS, p, d),
                5 if compiled else 1,
            )
            gain = ORIGINAL_S / point
            say(
                f"    further design point, {policy}/{dataflow}: {point * 1e3:.2f} ms ({gain:,.0f} x faster than 235 s)"
            )
    dense = [uniform_work(w.mapped) for w in works]
    say(f"  without skipping: {fastest(lambda: plan_and_run(dense, N_ARRAYS, 'profile', 'layer'), 5) * 1e3:.2f} ms")


def search(n: int) -> None:
    """Design points of ResNet-50-thin's real profile, drawn from the whole space, through the evaluator."""
    space = space_named("zeroskip")
    designs = space.designs(space.sample(n, np.random.default_rng(0)))
    distinct = len(np.unique(designs.genes, axis=0))
    evaluator = ZeroSkipEvaluator()
    took = fastest(lambda: evaluator.evaluate(designs, [resnet50_thin()]), 1)
    say(f"search: {n} design points ({distinct} distinct) of resnet50_thin in {took:.1f} s on one core")


def several_images(path: Path) -> None:
    """Target: a 16-image profile of ResNet-50-thin under 2 GiB."""
    began = time.perf_counter()
    profile = load(path)
    mapped = map_layers(profile.workload.layers, ArraySpec())
    images = list(range(profile.n_images))
    works = [trace_work(profile, i, m, images) for i, m in enumerate(mapped)]
    plan_and_run(works, 4 * sum(m.arrays for m in mapped), "profile", "block")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    took = time.perf_counter() - began
    say(
        f"{profile.n_images} images of {profile.name}: load, op cycles and one design point {took:.2f} s, "
        f"peak {peak:.2f} GiB"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", type=int, default=0, help="also evaluate this many design points (10000)")
    parser.add_argument("--profile", type=Path, help="also load this profile and report peak memory")
    options = parser.parse_args()
    if options.profile:  # first: the peak is the process's
        several_images(options.profile)
    one_image()
    if options.search:
        search(options.search)


if __name__ == "__main__":
    main()
