"""Does a model of many equal blocks cost as much to evaluate as one block?

    python experiments/workloads_llama/run.py

Evaluates the same random designs of space `sram9` on Llama-2-7B with one block, with 32 blocks by repeat
count, and with 32 blocks written out, and prints times and the largest difference of energy and latency.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from cimopt.config.assemble import assemble
from cimopt.config.compose import compose
from cimopt.config.schema import parse
from cimopt.types import Workload

N_DESIGNS = 4096
CHOICE = "llama2_7b"


def rooms_of(layers: int):
    overrides = [f"workload={CHOICE}", f"workload.{CHOICE}.params.layers={layers}", "space=sram9", "tracking=none"]
    plain = {k: v for k, v in compose([*overrides, "evaluator=tiled_physical"]).items() if k != "hydra"}
    return assemble(parse(plain, CHOICE))


def written_out(workload: Workload) -> Workload:
    """The same network with every repeat as a layer of its own."""
    layers = [
        replace(layer, name=f"{layer.name}.{i}", repeats=1) for layer in workload.layers for i in range(layer.repeats)
    ]
    return replace(workload, layers=tuple(layers))


def seconds_and_metrics(rooms, workload: Workload):
    """Best of three evaluations of fresh designs (evaluators remember stages), and the last one's metrics."""
    n_choices = rooms.space.parameters.n_choices
    best = np.inf
    for seed in range(3):
        genes = np.random.default_rng(seed).integers(0, n_choices, (N_DESIGNS, len(n_choices)))
        designs = rooms.space.designs(genes)
        start = time.perf_counter()
        metrics = rooms.chain.evaluate(designs, (workload,), "totals")
        best = min(best, time.perf_counter() - start)
    return best, metrics


def main() -> None:
    small, full = rooms_of(1), rooms_of(32)
    repeated = full.workloads[0]
    cases = {
        "one block": (small, small.workloads[0]),
        "32 blocks, repeated": (full, repeated),
        "32 blocks, written out": (full, written_out(repeated)),
    }
    results = {}
    for name, (rooms, workload) in cases.items():
        seconds, results[name] = seconds_and_metrics(rooms, workload)
        print(
            f"{name:<24} {len(workload.layers):>4} layers listed  {workload.weights / 1e9:6.3f} G weights  {1e6 * seconds / N_DESIGNS:7.2f} us per design"
        )
    for metric in ("energy_j", "latency_s"):
        a, b = (results[n].values[metric] for n in ("32 blocks, repeated", "32 blocks, written out"))
        print(f"{metric}: repeated and written out differ by at most {np.nanmax(np.abs(a / b - 1)):.1e}")


if __name__ == "__main__":
    main()
