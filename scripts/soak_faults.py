"""Break runs at random moments, let them go on, and compare with an undisturbed run.

    python scripts/soak_faults.py [--times 5] [--faults worker node driver store disk interrupt] [--seed 1]

Per fault: designs lost, doubled and wrong (all must be 0), whether the best is the undisturbed one, and
how many evaluations were paid twice. Exit code 1 when anything is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import soak_model
import soak_postgres

from cimopt.config import differences

START, STEPS, POPULATION = 60, 2, 40
DESIGNS = START + STEPS * POPULATION
ALONE, ON_RAY = ("runner=serial",), ("runner=ray", "runner.workers=2", "runner.max_retries=3")


@dataclass
class Count:
    """What one fault did, over all its times."""

    fault: str
    times: int = 0
    struck: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    other_best: int = 0
    paid_twice: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return (
            not (self.lost or self.doubled or self.wrong or self.other_best or self.notes) and self.struck == self.times
        )


class Run:
    """One run folder of a fixed, slow search; `start` may be called again to continue it."""

    def __init__(self, work: Path, plugin: str, *overrides: str) -> None:
        self.folder, self.log = Path(tempfile.mkdtemp(dir=work)), None
        self.log = self.folder / "calls.txt"
        self._overrides, self._plugin = overrides, plugin

    def start(self, *more: str, before: Callable[[], None] | None = None) -> subprocess.Popen:
        command = [
            sys.executable, "-m", "cimopt.cli", "search", "space=rram_small", "workload=alexnet", "evaluator=slow_tiled",
            f"++evaluator.slow_tiled.log={self.log}", "++evaluator.slow_tiled.sleep_s=0.03", "tracking=none",
            "report.plots=false", f"sampler.settings.start={START}", "sampler.settings.pool=200",
            f"sampler.settings.population={POPULATION}", f"sampler.stop_after={STEPS}", "hydra.run.dir=run", *self._overrides, *more,
        ]  # fmt: skip
        env = {**os.environ, "PYTHONPATH": _python_path(self._plugin), "RAY_USAGE_STATS_ENABLED": "0"}
        out = (self.folder / "output.txt").open("a")
        return subprocess.Popen(
            command, cwd=self.folder, env=env, stdout=out, stderr=out, preexec_fn=before, start_new_session=True
        )

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def output(self) -> str:
        return (self.folder / "output.txt").read_text()

    def table(self) -> list[dict]:
        import pyarrow.parquet as pq

        return pq.read_table(self.folder / "run" / "trials.parquet").to_pylist()

    def best(self) -> dict:
        return json.loads((self.folder / "run" / "result.json").read_text())["best"]

    def wait_for_calls(self, n: int, process: subprocess.Popen, limit_s: float = 120) -> bool:
        until = time.monotonic() + limit_s
        while len(self.calls()) < n and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        return len(self.calls()) >= n and process.poll() is None


class Soak:
    """The undisturbed run, the faults, and the comparison."""

    def __init__(self, work: Path, chance: random.Random) -> None:
        self.work, self.chance = work, chance
        self.plugin = soak_model.install(work / "plugin")
        straight = Run(work, self.plugin, *ALONE)
        if straight.start().wait(180):
            raise RuntimeError(f"the undisturbed run failed: {straight.output()[-2000:]}")
        self.reference, self.best = straight.table(), straight.best()

    def moment(self) -> int:
        """After how many evaluations a fault strikes."""
        return self.chance.randint(3, DESIGNS - 20)

    def compare(self, run: Run, count: Count) -> None:
        if not (run.folder / "run" / "trials.parquet").exists():
            count.notes.append(f"no result: {run.output()[-500:]}")
            return
        rows = run.table()
        found = {row["number"]: row for row in rows}
        count.lost += sum(row["number"] not in found for row in self.reference)
        count.doubled += len(rows) - len(found) + max(len(found) - len(self.reference), 0)
        count.wrong += sum(row != found[row["number"]] for row in self.reference if row["number"] in found)
        if changed := differences(self.best, run.best()):
            count.other_best += 1
            count.notes.append(f"best differs: {'; '.join(changed)[:500]}")
        count.paid_twice += len(run.calls()) - len({line.split()[1] for line in run.calls()})

    # ---------------------------------------------------------------- faults
    def worker(self, count: Count) -> None:
        """kill -9 of a Ray worker process while it evaluates."""
        run = Run(self.work, self.plugin, *ON_RAY)
        process = run.start()
        if run.wait_for_calls(self.moment(), process):
            os.kill(int(run.calls()[-1].split()[0]), signal.SIGKILL)
            count.struck += 1
        self._finish(run, process, count)

    def node(self, count: Count) -> None:
        """kill -9 of a raylet (and with it its workers) of a three-node cluster."""
        run = Run(self.work, self.plugin, "runner=ray", "runner.workers=3", "runner.max_retries=3")
        env = {**os.environ, "PYTHONPATH": _python_path(self.plugin)}
        with subprocess.Popen(
            [sys.executable, "-m", "cimopt.cli", "cluster", "local", "--nodes", "3", "--cpus", "1"], env=env,
            stdout=subprocess.PIPE, text=True,
        ) as cluster:  # fmt: skip
            try:
                told = json.loads(cluster.stdout.readline())
                process = run.start(f"runner.address={told['address']}")
                if run.wait_for_calls(self.moment(), process):
                    os.kill(self.chance.choice(told["raylets"][1:]), signal.SIGKILL)
                    count.struck += 1
                self._finish(run, process, count)
            finally:
                cluster.send_signal(signal.SIGINT)

    def driver(self, count: Count) -> None:
        """kill -9 of the driver; the same command again."""
        run = Run(self.work, self.plugin, *self.chance.choice([ALONE, ON_RAY]))
        self._end_and_again(run, signal.SIGKILL, count)

    def interrupt(self, count: Count) -> None:
        """Ctrl-C; the same command again."""
        run = Run(self.work, self.plugin, *ALONE)
        self._end_and_again(run, signal.SIGINT, count)

    def _end_and_again(self, run: Run, how: signal.Signals, count: Count) -> None:
        process = run.start()
        if run.wait_for_calls(self.moment(), process):
            process.send_signal(how)
            count.struck += 1
        process.wait(60)
        self._finish(run, run.start(), count)

    def store(self, count: Count) -> None:
        """PostgreSQL stops at once and comes back after some seconds."""
        with soak_postgres.Postgres() as server:
            run = Run(self.work, self.plugin, *ALONE, f"study.storage={server.url('soak')}", "study.name=soak")
            process = run.start()
            if run.wait_for_calls(self.moment(), process):
                server.stop()
                time.sleep(self.chance.uniform(0.2, 3.0))
                server.start()
                count.struck += 1
            self._finish(run, process, count)
            self._stored_exactly_once(server.url("soak"), count)
            if "secret" in run.output():
                count.notes.append("a password was shown")

    def _stored_exactly_once(self, url: str, count: Count) -> None:
        import optuna

        from cimopt.stores import driver_url

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.load_study(study_name="soak", storage=driver_url(url, "study.storage"))
        count.doubled += max(len(study.trials) - DESIGNS, 0)
        count.lost += sum(not t.state.is_finished() for t in study.trials)

    def disk(self, count: Count) -> None:
        """A full disk: a small tmpfs that is enlarged later, or (without the right to mount) a file size limit."""
        run = Run(self.work, self.plugin, *ALONE)
        place = run.folder / "run"
        place.mkdir()
        kb = self.chance.randint(80, 200)  # a whole run's journal and tables take about 400
        mounted = _mount(place, kb)
        process = run.start(before=None if mounted else lambda: _limit_files(kb * 1024))
        process.wait(180)
        if process.returncode == 2 and re.search(r"no space is left for", run.output()):
            count.struck += 1
        else:
            count.notes.append(f"full disk: exit code {process.returncode}: {run.output()[-300:]}")
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
        try:
            self._finish(run, run.start(), count)
        finally:
            if mounted:
                subprocess.run(["umount", "-l", str(place)], check=False)

    def _finish(self, run: Run, process: subprocess.Popen, count: Count) -> None:
        try:
            code = process.wait(240)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            count.notes.append(f"hangs: {run.output()[-500:]}")
            return
        if code:
            count.notes.append(f"exit code {code}: {run.output()[-500:]}")
        count.times += 1
        self.compare(run, count)


def _python_path(plugin: str) -> str:
    return os.pathsep.join([plugin, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


def _mount(place: Path, kb: int) -> bool:
    if os.geteuid() or shutil.which("mount") is None:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={kb}k", "cimopt-soak", str(place)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


FAULTS = ("worker", "node", "driver", "store", "disk", "interrupt")


def soak(faults: list[str], times: int, seed: int, tell: Callable[[str], object] = lambda line: None) -> list[Count]:
    """Each fault `times` times; returns the counts."""
    counts = []
    with tempfile.TemporaryDirectory(prefix="cimopt-soak-") as work:
        one = Soak(Path(work), random.Random(seed))
        for fault in faults:
            count = Count(fault)
            for _ in range(times):
                getattr(one, fault)(count)
            counts.append(count)
            tell(row(count))
    return counts


HEAD = (
    f"{'fault':<10}{'times':>6}{'struck':>8}{'lost':>6}{'doubled':>9}{'wrong':>7}{'other best':>12}{'paid twice':>12}"
)


def row(c: Count) -> str:
    line = f"{c.fault:<10}{c.times:>6}{c.struck:>8}{c.lost:>6}{c.doubled:>9}{c.wrong:>7}{c.other_best:>12}{c.paid_twice:>12}"
    return "\n".join([line, *(f"  {note}" for note in c.notes)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    options = parser.parse_args()
    if reason := soak_postgres.why_not():
        options.faults = [f for f in options.faults if f != "store"]
        sys.stdout.write(f"store: skipped, {reason}\n")
    sys.stdout.write(HEAD + "\n")
    counts = soak(
        options.faults, options.times, options.seed, lambda line: (sys.stdout.write(line + "\n"), sys.stdout.flush())
    )
    return 0 if all(c.clean for c in counts) else 1


if __name__ == "__main__":
    sys.exit(main())
