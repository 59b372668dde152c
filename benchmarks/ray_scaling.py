"""Throughput on 1, 2, 3 Ray nodes with a slow evaluator, and the overhead per design of short ones.

    python benchmarks/ray_scaling.py [--designs 48] [--nodes 1 2 3] [--sleeps 0.001 0.01 0.1]

Nodes are separate raylets on this machine, one CPU each. The evaluator sleeps on top of the real model, so
nodes do not compete for this machine's CPUs; what is measured is what the runner costs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
import soak_model


@contextmanager
def cluster(nodes: int, plugin: str):
    """`cimopt cluster local`; gives its address."""
    env = {**os.environ, "PYTHONPATH": plugin}
    command = [sys.executable, "-m", "cimopt.cli", "cluster", "local", "--nodes", str(nodes), "--cpus", "1"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


def measure(address: str, workers: int, sleep_s: float, designs: int) -> dict[str, float]:
    """Wall seconds of one batch, workers built and the model warm; overhead is what the sleeps do not explain."""
    import numpy as np

    from cimopt.config.assemble import assemble, make_evaluator, make_runner
    from cimopt.config.compose import compose
    from cimopt.config.schema import parse

    overrides = [
        "space=rram_small", "workload=alexnet", "evaluator=slow_tiled", f"++evaluator.slow_tiled.sleep_s={sleep_s}",
        "runner=ray", f"runner.address='{address}'", f"runner.workers={workers}", "runner.cache=off", "tracking=none",
    ]  # fmt: skip
    rooms = assemble(parse(compose(overrides)))
    genes = np.random.default_rng(1).integers(0, rooms.space.n_choices, (designs, rooms.space.n_genes))
    with make_runner(rooms.config) as runner:
        evaluator = make_evaluator(rooms, runner, None)
        while len(runner._idle) < workers:  # all workers built: a benchmark of work, not of starting
            list(runner.map([(genes[:1], "totals")]))
        evaluator.evaluate(rooms.space.designs(genes[: 4 * workers]), rooms.workloads)
        began = time.perf_counter()
        evaluator.evaluate(rooms.space.designs(genes), rooms.workloads)
        seconds = time.perf_counter() - began
    ideal = sleep_s * designs / workers
    return {
        "workers": workers, "sleep_s": sleep_s, "designs": designs, "seconds": round(seconds, 3),
        "designs_per_s": round(designs / seconds, 3), "efficiency": round(ideal / seconds, 4),
        "overhead_ms_per_design": round((seconds - ideal) * workers / designs * 1e3, 4),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", type=int, default=48)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sleeps", type=float, nargs="+", default=[0.001, 0.01, 0.1])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plugin = soak_model.install(Path(folder) / "plugin")
        sys.path.insert(0, plugin)
        for nodes in options.nodes:
            with cluster(nodes, plugin) as address:
                _tell(measure(address, nodes, 0.5, options.designs))
                if nodes == max(options.nodes):
                    for sleep_s in options.sleeps:
                        _tell(measure(address, nodes, sleep_s, int(min(3000, 5 * nodes / sleep_s))))
    return 0


def _tell(line: dict[str, float]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
