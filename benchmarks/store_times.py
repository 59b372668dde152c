"""What a design costs in the study's store, in three ways.

in_batches: a generation's finished designs at once (fast models); as_they_come: a generation asked at once, each
design told when it is done (slow models); one_by_one: asked and told singly (Optuna's own way).

    python benchmarks/store_times.py [--designs 10000] [--singly 1000] [--stores journal postgresql]

Same designs, same content; the sampler is Optuna's random one, whose own time is next to nothing.
PostgreSQL is a server of this script's own on loopback, without fsync: a real one is slower in both ways.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import optuna

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
import soak_postgres

from cimopt.config.assemble import Rooms, assemble
from cimopt.config.compose import compose
from cimopt.config.schema import parse
from cimopt.store.ledger import Batch
from cimopt.store.study import StoredStudy

POPULATION = 40


@contextmanager
def study(storage: list[str]) -> Iterator[tuple[Rooms, StoredStudy]]:
    chosen = ["space=rram", "evaluator=tiled_published", "tracking=none", "runner=serial", *storage]
    rooms = assemble(parse(compose(chosen)))
    with tempfile.TemporaryDirectory() as folder:
        stored = StoredStudy(rooms, optuna.samplers.RandomSampler(seed=1), Path(folder))
        try:
            yield rooms, stored
        finally:
            stored.close()


def evaluated(rooms: Rooms, first: int, genes: np.ndarray) -> Batch:
    metrics = rooms.chain.evaluate(rooms.space.designs(genes), rooms.workloads)
    return Batch(np.arange(first, first + len(genes)), genes, metrics, rooms.objective.score(metrics))


def in_batches(rooms: Rooms, stored: StoredStudy, designs: int) -> float:
    rng, seconds = np.random.default_rng(1), 0.0
    for first in range(0, designs, POPULATION):
        genes = rng.integers(0, rooms.space.n_choices, (POPULATION, rooms.space.n_genes))
        batch = evaluated(rooms, first, genes)
        began = time.perf_counter()
        stored.add(batch)
        seconds += time.perf_counter() - began
    return seconds


def as_they_come(rooms: Rooms, stored: StoredStudy, designs: int) -> float:
    rng, seconds = np.random.default_rng(1), 0.0
    for first in range(0, designs, POPULATION):
        genes = rng.integers(0, rooms.space.n_choices, (POPULATION, rooms.space.n_genes))
        began = time.perf_counter()
        trials = stored.ask_for(genes, first) if stored.is_shared else stored.ask(POPULATION)
        seconds += time.perf_counter() - began
        batch = evaluated(rooms, first, stored.genes_of(trials))
        began = time.perf_counter()
        for i, trial in enumerate(trials):
            stored.tell_all([trial], batch.take(np.array([i])))
        seconds += time.perf_counter() - began
    return seconds


def one_by_one(rooms: Rooms, stored: StoredStudy, designs: int) -> float:
    seconds = 0.0
    for number in range(designs):
        began = time.perf_counter()
        trials = stored.ask(1)
        seconds += time.perf_counter() - began
        batch = evaluated(rooms, number, stored.genes_of(trials))
        began = time.perf_counter()
        stored.tell(trials[0], batch, 0)
        seconds += time.perf_counter() - began
    return seconds


def measure(name: str, url: str | None, options: argparse.Namespace) -> None:
    for way, designs in ((in_batches, options.designs), (as_they_come, options.singly), (one_by_one, options.singly)):
        named = [f"study.storage='{url}'", f"study.name={way.__name__}"] if url else []
        with study(named) as (rooms, stored):
            seconds = way(rooms, stored, designs)
        line = {"store": name, "way": way.__name__, "designs": designs, "seconds": round(seconds, 2)}
        sys.stdout.write(json.dumps(line | {"ms_per_design": round(seconds / designs * 1e3, 3)}) + "\n")
        sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", type=int, default=10_000)
    parser.add_argument("--singly", type=int, default=1_000)
    parser.add_argument("--stores", nargs="+", choices=["journal", "postgresql"], default=["journal", "postgresql"])
    options = parser.parse_args()
    if "journal" in options.stores:
        measure("journal", None, options)
    if "postgresql" in options.stores:
        if reason := soak_postgres.why_not():
            sys.stdout.write(f"postgresql: skipped, {reason}\n")
        else:
            with soak_postgres.Postgres() as server:
                measure("postgresql", server.url("times"), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
