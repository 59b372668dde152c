"""100,000 designs through one study, per `study.store`: the driver's memory and the stores' share of time.

    python benchmarks/large_study.py [--designs 100000] [--store full generation best] [--storage URL]

Each store runs in a process of its own; memory is the process's resident size after each generation. The
model's own tables (one row per distinct combination, whatever the study) are filled first with random designs;
`--cold` leaves that out. `held_bytes_per_design` is what the driver must keep: genes, value, amount, number.
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


def fill_tables(rooms, designs: int = 400_000) -> None:
    rng = np.random.default_rng(0)
    for _ in range(designs // 20_000):
        genes = rng.integers(0, rooms.space.n_choices, (20_000, rooms.space.n_genes))
        rooms.chain.evaluate(rooms.space.designs(genes), rooms.workloads)


def held_bytes(ledger) -> int:
    """Arrays that grow with the study whatever the model: no metrics."""
    held = ledger.merged()
    arrays = (held.number, held.genes, held.scores.values, held.scores.total_violation, held.scores.errors)
    return sum(a.nbytes for a in arrays) + held.metrics.reason.nbytes


def run(store: str, designs: int, storage: str | None, cold: bool, results: multiprocessing.Queue) -> None:
    from cimopt.config.assemble import assemble
    from cimopt.config.compose import compose
    from cimopt.config.schema import parse
    from cimopt.engine.loop import search

    generations = max(-(-(designs - POPULATION) // (4 * POPULATION)), 1)
    phase = f"{{generations: {generations}, p_c: 1.0, eta_c: 3, p_m: 1.0, eta_m: 3}}"
    overrides = [
        "space=rram", "evaluator=tiled_published", "tracking=none", "runner=serial", f"study.store={store}", f"sampler.settings.population={POPULATION}",
        f"sampler.settings.phases=[{','.join([phase] * 4)}]",
    ]  # fmt: skip
    if storage:
        overrides += [f"study.storage='{storage}'", f"study.name=large-{store}-{time.time():.0f}"]
    rooms = assemble(parse(compose(overrides)))
    if not cold:
        fill_tables(rooms)
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
            "held_bytes_per_design": round(held_bytes(done.ledger) / float(n[-1]), 1),
            "seconds": {k: round(v, 1) for k, v in done.seconds.items()},
            "store_share": round(done.seconds["storage"] / done.seconds["total"], 3),
        }
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", type=int, default=100_000)
    parser.add_argument("--store", nargs="+", default=["full", "generation", "best"])
    parser.add_argument("--storage", help="Optuna storage URL (default: the run folder's journal)")
    parser.add_argument("--cold", action="store_true", help="the model's tables fill during the study")
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    for store in options.store:
        results = spawn.Queue()
        process = spawn.Process(target=run, args=(store, options.designs, options.storage, options.cold, results))
        process.start()
        sys.stdout.write(json.dumps(results.get()) + "\n")
        sys.stdout.flush()
        process.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
