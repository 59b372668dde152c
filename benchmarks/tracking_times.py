"""What MLflow costs the driver: per study, per generation, per nested run; SQLite file and server on PostgreSQL.

python benchmarks/tracking_times.py [--generations 40]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
import soak_postgres

from cimopt.commands import ui
from cimopt.tracking import MlflowTracker

CURVES = (
    "best", "generation_best", "median", "feasible_share", "diversity", "hypervolume", "failed", "evaluated", "evaluations_per_s",
)  # fmt: skip


@contextmanager
def server(folder: Path) -> Iterator[str]:
    port = soak_postgres.free_port()
    with soak_postgres.Postgres() as postgres:
        command = [*ui.server("127.0.0.1", port), "--artifacts-destination", str(folder)]
        process = subprocess.Popen(
            command, env=ui.environment(postgres.url("mlflow")), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            _wait(f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def _wait(address: str) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=2).read()
            return
        time.sleep(0.5)
    raise RuntimeError("the MLflow server did not start")


def measure(name: str, uri: str, folder: Path, generations: int) -> None:
    MlflowTracker(uri, "warm", folder).start("warm", {}, {}, None)  # import, tables
    file = folder / "result.json"
    file.write_text("{}" * 5_000)
    took: dict[str, list[float]] = {"start": [], "generation": [], "nested_run": [], "finish": []}

    def timed(key: str, action: Callable[..., object], *given: object) -> None:
        began = time.perf_counter()
        action(*given)
        took[key].append(time.perf_counter() - began)

    params, tags = {f"key.{k}": k for k in range(60)}, {f"cimopt.tag{k}": str(k) for k in range(20)}
    for _ in range(3):
        tracker = MlflowTracker(uri, "times", folder)
        timed("start", tracker.start, "study", params, tags, None)
        for step in range(generations):
            timed("generation", tracker.metrics, {f"gen/{c}": 1.0 for c in CURVES}, step)
        for _ in range(5):
            timed("nested_run", tracker.child, "top", {f"p{k}": k for k in range(11)}, {"best_score": 1.0})
        timed("finish", tracker.finish, "FINISHED", [file] * 6, "note")
    line = {"store": name} | {f"{key}_ms": round(1e3 * statistics.median(v), 1) for key, v in took.items()}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generations", type=int, default=40)
    options = parser.parse_args()
    warnings.simplefilter("error", UserWarning)  # a store that failed is no measurement
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure("sqlite", f"sqlite:///{folder / 'mlflow.db'}", folder, options.generations)
        if soak_postgres.why_not() is None:
            with server(folder) as uri:
                measure("server on postgresql", uri, folder, options.generations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
