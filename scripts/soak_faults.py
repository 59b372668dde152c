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

from cimopt.config.schema import differences


@dataclass(frozen=True)
class Size:
    """A search's designs: a start generation and `steps` more."""

    start: int = 60
    population: int = 40
    steps: int = 2

    @property
    def designs(self) -> int:
        return self.start + self.steps * self.population


LONG, SHORT = Size(), Size(30, 20)
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

    def __init__(self, work: Path, plugin: str, size: Size, *overrides: str) -> None:
        self.folder, self.log = Path(tempfile.mkdtemp(dir=work)), None
        self.log = self.folder / "calls.txt"
        self._overrides, self._plugin, self._size = overrides, plugin, size

    def start(self, *more: str, before: Callable[[], None] | None = None) -> subprocess.Popen:
        command = [
            sys.executable, "-m", "cimopt.cli", "search", "space=rram_small", "workload=alexnet", "evaluator=slow_tiled",
            f"++evaluator.slow_tiled.log={self.log}", "++evaluator.slow_tiled.sleep_s=0.03", "tracking=none",
            "report.plots=false", f"sampler.settings.start={self._size.start}", "sampler.settings.pool=200",
            f"sampler.settings.population={self._size.population}", f"sampler.stop_after={self._size.steps}", "hydra.run.dir=run", *self._overrides, *more,
        ]  # fmt: skip
        env = {**os.environ, "PYTHONPATH": _python_path(self._plugin), "RAY_USAGE_STATS_ENABLED": "0"}

        def prepare() -> None:
            # A soak started in the background may itself be deaf to Ctrl-C; its runs must not be.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if before is not None:
                before()

        with (self.folder / "output.txt").open("a") as out:
            return subprocess.Popen(
                command, cwd=self.folder, env=env, stdout=out, stderr=out, preexec_fn=prepare, start_new_session=True
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

    def hold(self, n: int) -> None:
        """Let no evaluation beyond the n-th go on until `release`."""
        Path(f"{self.log}.hold").write_text(str(n))

    def release(self) -> None:
        Path(f"{self.log}.hold").unlink(missing_ok=True)

    def wait_for_calls(self, n: int, process: subprocess.Popen, limit_s: float = 120) -> bool:
        until = time.monotonic() + limit_s
        while len(self.calls()) < n and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        return len(self.calls()) >= n and process.poll() is None


class Soak:
    """The undisturbed run, the faults, and the comparison.

    `held`: evaluations stand still from the fault's moment until it has struck, so that it always strikes.
    `places`: where the runs that are ended evaluate, one of them by chance.
    """

    places = (ALONE, ON_RAY)

    def __init__(self, work: Path, chance: random.Random, size: Size = LONG, *, held: bool = False) -> None:
        self.work, self.chance, self.size, self.held = work, chance, size, held
        self.plugin = soak_model.install(work / "plugin")
        straight = self.run(*ALONE)
        if straight.start().wait(180):
            raise RuntimeError(f"the undisturbed run failed: {straight.output()[-2000:]}")
        self.reference, self.best = straight.table(), straight.best()

    def run(self, *overrides: str) -> Run:
        return Run(self.work, self.plugin, self.size, *overrides)

    def strike(self, run: Run, how: Callable[[subprocess.Popen], object], count: Count, *more: str) -> subprocess.Popen:
        """Start the run and do `how` after a random number of evaluations."""
        n = self.chance.randint(3, self.size.designs - 20)
        if self.held:
            run.hold(n)
        process = run.start(*more)
        if run.wait_for_calls(n, process):
            how(process)
            count.struck += 1
        run.release()
        return process

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
        run = self.run(*ON_RAY)
        process = self.strike(run, lambda _: os.kill(int(run.calls()[-1].split()[0]), signal.SIGKILL), count)
        self._finish(run, process, count)

    def node(self, count: Count) -> None:
        """kill -9 of a raylet (and with it its workers) of a three-node cluster."""
        run = self.run("runner=ray", "runner.workers=3", "runner.max_retries=3")
        env = {**os.environ, "PYTHONPATH": _python_path(self.plugin)}
        with subprocess.Popen(
            [sys.executable, "-m", "cimopt.cli", "cluster", "local", "--nodes", "3", "--cpus", "1"], env=env,
            stdout=subprocess.PIPE, text=True,
        ) as cluster:  # fmt: skip
            try:
                told = json.loads(cluster.stdout.readline())
                raylet = self.chance.choice(told["raylets"][1:])
                where = f"runner.address={told['address']}"
                process = self.strike(run, lambda _: os.kill(raylet, signal.SIGKILL), count, where)
                self._finish(run, process, count)
            finally:
                cluster.send_signal(signal.SIGINT)

    def driver(self, count: Count) -> None:
        """kill -9 of the driver; the same command again."""
        self._end_and_again(lambda process: process.kill(), count)

    def interrupt(self, count: Count) -> None:
        """Ctrl-C, which a terminal sends to the driver and to every process it started; the same command again."""
        self._end_and_again(lambda process: os.killpg(process.pid, signal.SIGINT), count, 130)

    def _end_and_again(self, end: Callable[[subprocess.Popen], object], count: Count, expected: int = -9) -> None:
        run = self.run(*self.chance.choice(self.places))
        code = self.strike(run, end, count).wait(120)
        if code != expected:
            count.notes.append(f"exit code {code} instead of {expected}: {run.output()[-2000:]}")
        self._finish(run, run.start(), count)

    def store(self, count: Count) -> None:
        """PostgreSQL stops at once and comes back after some seconds."""
        with soak_postgres.Postgres() as server:
            run = self.run(*ALONE, f"study.storage={server.url('soak')}", "study.name=soak")

            def go_and_come_back(_: subprocess.Popen) -> None:
                server.stop()
                run.release()  # so that results meet the absent store
                time.sleep(self.chance.uniform(0.2, 3.0))
                server.start()

            self._finish(run, self.strike(run, go_and_come_back, count), count)
            self._stored_exactly_once(server.url("soak"), count)
            if "secret" in run.output():
                count.notes.append("a password was shown")

    def _stored_exactly_once(self, url: str, count: Count) -> None:
        import optuna

        from cimopt.store.urls import driver_url

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.load_study(study_name="soak", storage=driver_url(url, "study.storage"))
        count.doubled += max(len(study.trials) - self.size.designs, 0)
        count.lost += sum(not t.state.is_finished() for t in study.trials)

    def disk(self, count: Count) -> None:
        """A full disk: a small tmpfs that is enlarged later, or (without the right to mount) a file size limit."""
        run = self.run(*ALONE)
        place = run.folder / "run"
        place.mkdir()
        # A whole run's journal and tables take about 3 kB a design.
        kb = int(self.size.designs * self.chance.uniform(0.6, 1.4))
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
