"""100,000 designs through one study, per `study.store`: the driver's memory and the stores' share of time.

    python benchmarks/large_study.py [--designs 100000] [--store full generation best] [--storage URL]

Each store runs in a process of its own; memory is the process's resident size after each generation.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

POPULATION = 500


def resident_mb() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class Memory:
    """A listener that notes (designs, MB)."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float]] = []

    def on_start(self, budget: int, done: int) -> None:
        pass

    def on_designs(self, n: int) -> None:
        pass

    def on_generation(self, stats) -> None:
        self.points.append((stats.n_evaluated, resident_mb()))


def run(store: str, designs: int, storage: str | None, results: multiprocessing.Queue) -> None:
    from cimopt.assemble import assemble
    from cimopt.compose import compose
    from cimopt.config import parse
    from cimopt.loop import search

    generations = max((designs - POPULATION) // (4 * POPULATION), 1)
    phase = f"{{generations: {generations}, p_c: 1.0, eta_c: 3, p_m: 1.0, eta_m: 3}}"
    overrides = [
        "space=rram", "evaluator=tiled_published", "tracking=none", "runner=serial", f"study.store={store}", f"sampler.settings.population={POPULATION}",
        f"sampler.settings.phases=[{','.join([phase] * 4)}]",
    ]  # fmt: skip
    if storage:
        overrides += [f"study.storage='{storage}'", f"study.name=large-{store}-{time.time():.0f}"]
    rooms = assemble(parse(compose(overrides)))
    memory = Memory()
    with tempfile.TemporaryDirectory() as folder:
        done = search(rooms, Path(folder) / "run", Path(folder), memory, lambda stored: None)
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    n, mb = np.array(memory.points).T
    late = n > n[-1] / 4  # imports and first tables are no growth
    results.put(
        {
            "store": store, "designs": int(n[-1]), "rss_mb_quarter": round(float(mb[late][0])), "rss_mb_end": round(float(mb[-1])),
            "kb_per_design": round(float(np.polyfit(n[late], mb[late], 1)[0]) * 1024, 3), "disk_mb": round(size / 1e6),
            "seconds": {k: round(v, 1) for k, v in done.seconds.items()},
            "store_share": round(done.seconds["storage"] / done.seconds["total"], 3),
        }
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", type=int, default=100_000)
    parser.add_argument("--store", nargs="+", default=["full", "generation", "best"])
    parser.add_argument("--storage", help="Optuna storage URL (default: the run folder's journal)")
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    for store in options.store:
        results = spawn.Queue()
        process = spawn.Process(target=run, args=(store, options.designs, options.storage, results))
        process.start()
        sys.stdout.write(json.dumps(results.get()) + "\n")
        sys.stdout.flush()
        process.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
