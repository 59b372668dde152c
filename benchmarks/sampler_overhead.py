"""Sampler overhead per trial in plain Optuna (ask + tell, in memory) at growing numbers of trials.

    python benchmarks/sampler_overhead.py [trials]

Prints milliseconds per trial over windows of 500 trials, for the four-phase sampler and for Optuna's
random and NSGA-II samplers in the same process; compare ratios, not absolute times.
"""

from __future__ import annotations

import sys
import time

import optuna

from cimopt.samplers.four_phase import FourPhaseSampler
from cimopt.testing import space_named

WINDOW = 500


def measure(sampler: optuna.samplers.BaseSampler, trials: int, marks: list[int]) -> dict[int, float]:
    """Milliseconds per ask + tell in the window that ends at each mark."""
    space = space_named("rram")
    distributions = {
        n: optuna.distributions.IntDistribution(0, int(k) - 1)
        for n, k in zip(space.names, space.n_choices, strict=True)
    }
    study = optuna.create_study(sampler=sampler)
    found, began = {}, 0.0
    for number in range(1, trials + 1):
        if number - 1 in {mark - WINDOW for mark in marks}:
            began = time.perf_counter()
        trial = study.ask(distributions)
        study.tell(trial, float(sum((v - 2) ** 2 for v in trial.params.values())))
        if number in marks:
            found[number] = 1e3 * (time.perf_counter() - began) / WINDOW
    return found


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    marks = [m for m in (1_000, 10_000, 50_000) if m <= trials]
    samplers = {"four_phase": FourPhaseSampler(space_named("rram")), "random": optuna.samplers.RandomSampler(seed=1)}
    if trials <= 10_000:
        samplers["nsga2"] = optuna.samplers.NSGAIISampler(seed=1)
    for name, sampler in samplers.items():
        found = measure(sampler, trials, marks)
        sys.stdout.write(f"{name:<12}" + "  ".join(f"{m:>6} trials: {ms:.3f} ms" for m, ms in found.items()) + "\n")


if __name__ == "__main__":
    main()
