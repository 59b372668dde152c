"""The one loop: ask -> evaluate -> score -> tell -> record. Alone it knows every room.

Two paths, same designs. *Batch*: a generation is proposed, evaluated and written in one go (fast
evaluators). *Per trial*: designs are asked from Optuna, and told one by one as results arrive (slow
evaluators, and Optuna's own samplers).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from optuna.samplers import BaseSampler
from optuna.trial import Trial

from cimopt import plugins
from cimopt.config.assemble import Rooms, is_slow, make_evaluator, make_runner, ruled
from cimopt.errors import InputError, StudyConflictError
from cimopt.evaluators.wrappers import Direct, Guarded, Wrapper
from cimopt.report import summary
from cimopt.samplers.generational import GenerationalSampler
from cimopt.samplers.peers.asktell import AskTell
from cimopt.samplers.peers.optuna import BatchAsked
from cimopt.scores.pareto import hypervolume, non_dominated
from cimopt.store.ledger import Batch, CompactLedger, Ledger
from cimopt.store.study import FolderLock, StoredStudy
from cimopt.types import Metrics

STORE = "cimopt_store"
START_OF_BOX = 100  # feasible designs that set the hypervolume's reference


@dataclass(frozen=True)
class GenerationStats:
    """One generation's figures; scores in the objective's unit, None where nothing is feasible."""

    generation: int
    n_evaluated: int  # so far
    best: float | None  # so far
    generation_best: float | None
    generation_median: float | None
    feasible_share: float
    failed: int
    diversity: float  # mean share of differing genes over pairs, 0..1
    evaluations_per_s: float
    hypervolume: float | None = None  # of the front so far, several goals only; see `hypervolume_so_far`


class Listener(Protocol):
    """What the loop tells: progress bars and trackers listen."""

    def on_start(self, budget: int, done: int) -> None: ...
    def on_designs(self, n: int) -> None: ...
    def on_generation(self, stats: GenerationStats) -> None: ...


@dataclass
class SearchRun:
    """What a search leaves: every design's batch, the curves, the seconds, whether it was interrupted."""

    rooms: Rooms
    ledger: Ledger
    history: list[GenerationStats]
    seconds: dict[str, float]
    interrupted: bool = False


def search(
    rooms: Rooms, folder: Path, launch_folder: Path, listener: Listener, on_open: Callable[[StoredStudy], None]
) -> SearchRun:
    """Run or resume one study in `folder`. `on_open` gets the opened study before the first evaluation."""
    began = time.perf_counter()
    lock = FolderLock(folder)
    try:
        with make_runner(rooms.config) as runner:
            evaluator = make_evaluator(rooms, runner, launch_folder / "runs" / "cache")
            sampler = make_sampler(rooms)
            stored = StoredStudy(rooms, sampler, folder)
            try:
                on_open(stored)
                ledger = make_ledger(rooms, sampler, folder, stored)
                return _Search(rooms, stored, sampler, evaluator, listener, began, ledger).run()
            finally:
                stored.close()
    finally:
        lock.release()


def make_ledger(rooms: Rooms, sampler: BaseSampler, folder: Path, stored: StoredStudy) -> Ledger:
    """The ledger of `study.store`; a study keeps the way it was begun with."""
    store = rooms.config.study.store
    begun = stored.noted(STORE) or "full"
    if stored.study.user_attrs.get(STORE) is None and not stored.holds_trials():
        stored.note(STORE, store)
    elif begun != store:
        raise StudyConflictError(f"this study was begun with study.store={begun}; it goes on only with that")
    if store == "full":
        return Ledger()
    if isinstance(sampler, BatchAsked):
        raise InputError(
            f"study.store={store}: sampler '{rooms.config.sampler.name}' reads every trial; use study.store=full"
        )
    return CompactLedger(folder, _table_writer(rooms, sampler) if store == "generation" else None)


def _table_writer(rooms: Rooms, sampler: GenerationalSampler | AskTell) -> Callable[[Path, Batch], None]:
    """Writes one step's designs and metrics as a table."""

    def write(path: Path, batch: Batch) -> None:
        generational = isinstance(sampler, GenerationalSampler)
        step = [sampler.slot_of(n)[0] if generational else n // sampler.batch for n in batch.number.tolist()]
        designs = rooms.space.designs(batch.genes)
        summary.write_trials(path, batch.number, np.array(step), designs, batch.metrics, batch.scores)

    return write


class Silent:
    """A listener that hears nothing."""

    def on_start(self, budget: int, done: int) -> None:
        pass

    def on_designs(self, n: int) -> None:
        pass

    def on_generation(self, stats: GenerationStats) -> None:
        pass


def search_in_memory(rooms: Rooms) -> SearchRun:
    """The same loop without a folder, in this process, on the rooms' own evaluator: for benchmarks.

    Stage tables stay with `rooms.chain`, so many runs over the same rooms compute them once.
    """
    began = time.perf_counter()
    sampler = make_sampler(rooms)
    evaluator = ruled(rooms.space, Direct(Guarded(rooms.chain)))
    return _Search(rooms, StoredStudy(rooms, sampler, None), sampler, evaluator, Silent(), began).run()


def make_sampler(rooms: Rooms) -> BaseSampler:
    """The configured sampler, by entry-point name."""
    config = rooms.config.sampler
    build = plugins.load("cimopt.samplers", config.kind)
    sampler = build(rooms.space, config.settings, rooms.config.seed, rooms.precheck)
    if not isinstance(sampler, GenerationalSampler | BatchAsked | AskTell):
        raise InputError(
            f"sampler plug-in '{config.kind}' gave {type(sampler).__name__}; "
            "it must give a GenerationalSampler, an AskTell or a BatchAsked"
        )
    return sampler


class _Search:
    """One run's state; `run` is the loop."""

    def __init__(
        self, rooms: Rooms, stored: StoredStudy, sampler: GenerationalSampler | AskTell | BatchAsked, evaluator: Wrapper, listener: Listener,
        began: float, ledger: Ledger | None = None,
    ) -> None:  # fmt: skip
        self.rooms, self.stored, self.sampler = rooms, stored, sampler
        self.evaluator, self.listener = evaluator, listener
        self.ledger, self.history = ledger or Ledger(), []
        self.compact = isinstance(self.ledger, CompactLedger)
        self.began = began
        self.seconds = {"setup": time.perf_counter() - began, "sampling": 0.0, "evaluation": 0.0, "storage": 0.0}
        # An AskTell sampler numbers its designs itself, so its trials are written in batches.
        self.per_trial = isinstance(sampler, BatchAsked) or (
            isinstance(sampler, GenerationalSampler) and is_slow(rooms.chain) and not self.compact
        )

    def run(self) -> SearchRun:
        interrupted = False
        try:
            self._load_finished()
            self._loop()
        except KeyboardInterrupt:
            interrupted = True
        total = time.perf_counter() - self.began
        self.seconds = {"total": total, **self.seconds, "overhead": total - sum(self.seconds.values())}
        return SearchRun(self.rooms, self.ledger, self.history, self.seconds, interrupted)

    # ------------------------------------------------------------- schedule
    def _sizes(self) -> list[int]:
        """Designs per step; step 0 is the start generation of a generational sampler."""
        if isinstance(self.sampler, GenerationalSampler):
            sizes = [self.sampler.size_of(g) for g in range(self.sampler.n_generations)]
        else:
            full, rest = divmod(self.sampler.budget, self.sampler.batch)
            sizes = [self.sampler.batch] * full + ([rest] if rest else [])
        stop_after = self.rooms.config.sampler.stop_after
        return sizes if stop_after is None else sizes[: 1 + stop_after]

    def _load_finished(self) -> None:
        with _timed(self.seconds, "storage"):
            finished = self.stored.finished()
            if self.compact:
                self.ledger.resume(finished)
            elif finished is not None:
                self.ledger.add(finished)

    def _loop(self) -> None:
        if isinstance(self.sampler, AskTell):
            self._ask_tell()
            return
        sizes = self._sizes()
        self.listener.on_start(sum(sizes), len(self.ledger.archive(self.rooms.space.n_genes)))
        first = 0
        for generation, size in enumerate(sizes):
            began = time.perf_counter()
            known = self._numbers_in(first, first + size)
            new = 0
            if len(known) < size:
                new = self._per_trial(first, size) if self.per_trial else self._batch(generation, first, known)
            now_there = self._numbers_in(first, first + size)
            if now_there.size:
                self._report(generation, first, size, new, time.perf_counter() - began)
            if now_there.size < size or self._converged():
                return  # the space is used up, or nothing gets better
            first += size

    def _converged(self) -> bool:
        """Early stopping (the paper's V-D): no better feasible design for `early_stop` offspring generations."""
        patience = self.rooms.config.sampler.early_stop
        if patience is None or len(self.history) <= patience:
            return False
        now, before = self.history[-1], self.history[-1 - patience]
        if now.hypervolume is not None and before.hypervolume is not None:
            return now.hypervolume <= before.hypervolume
        return now.best is not None and before.best is not None and now.best >= before.best

    def _ask_tell(self) -> None:
        """Other libraries' algorithms: replayed from the store, then continued, until the budget is used."""
        budget, first, step = self.sampler.budget, 0, 0
        stop_after = self.rooms.config.sampler.stop_after
        self.listener.on_start(budget, len(self.ledger.archive(self.rooms.space.n_genes)))
        while first < budget and (stop_after is None or step <= stop_after):
            began = time.perf_counter()
            with _timed(self.seconds, "sampling"):
                asked = self.sampler.ask()
            genes = asked[: budget - first]
            if not len(genes):
                return
            known = self._numbers_in(first, first + len(genes))
            self._evaluate_slots(first, genes, known)
            rows = self._rows_in(first, first + len(genes))
            if len(genes) == len(asked):  # a last batch cut to the budget needs no answer
                with _timed(self.seconds, "sampling"):
                    self._tell_back(genes, rows)
            self._report(step, first, len(genes), len(genes) - len(known), time.perf_counter() - began)
            first, step = first + len(genes), step + 1
            if self._converged():
                return

    def _rows_in(self, first: int, stop: int) -> np.ndarray:
        number = self.ledger.merged().number
        return np.flatnonzero((number >= first) & (number < stop))

    def _tell_back(self, genes: np.ndarray, rows: np.ndarray) -> None:
        everything = self.ledger.merged()
        if not np.array_equal(everything.genes[rows], genes):
            raise StudyConflictError(
                f"sampler '{self.rooms.config.sampler.name}' proposes other designs than this study holds; "
                "another version of its library wrote it. Use a new folder"
            )
        scores = everything.scores
        violations = np.where(scores.errors, np.inf, scores.total_violation)[rows]
        self.sampler.tell(genes, scores.scalar[rows], violations)

    def _numbers_in(self, first: int, stop: int) -> np.ndarray:
        number = self.ledger.archive(self.rooms.space.n_genes).number
        return number[(number >= first) & (number < stop)]

    # ----------------------------------------------------------- batch path
    def _batch(self, generation: int, first: int, known: np.ndarray) -> int:
        """Propose a generation, evaluate its missing slots, write them. Returns how many were new."""
        archive = self.ledger.archive(self.rooms.space.n_genes)
        with _timed(self.seconds, "sampling"):
            earlier = archive.take(np.flatnonzero(archive.number < first))
            genes = self.sampler.propose(self.rooms.space, generation, earlier)
        return self._evaluate_slots(first, genes, known)

    def _evaluate_slots(self, first: int, genes: np.ndarray, known: np.ndarray) -> int:
        """Evaluate and write the slots that are not known yet."""
        slots = np.setdiff1d(np.arange(len(genes)), known - first)
        if not slots.size:
            return 0
        self.evaluator.on_result = lambda rows, metrics: self.listener.on_designs(len(rows))
        batch = self._evaluate(first + slots, genes[slots])
        with _timed(self.seconds, "storage"):
            if self.compact:
                self.stored.add_best(self.ledger.keeps(batch))
            else:
                self.stored.add(batch)
            self.ledger.add(batch)
        return len(slots)

    def _evaluate(self, number: np.ndarray, genes: np.ndarray) -> Batch:
        with _timed(self.seconds, "evaluation"):
            metrics = self.evaluator.evaluate(self.rooms.space.designs(genes), self.rooms.workloads)
            scores = self.rooms.objective.score(metrics)
        return Batch(number, genes, metrics, scores)

    # ------------------------------------------------------- per-trial path
    def _per_trial(self, first: int, size: int) -> int:
        """Ask what is missing (a dead driver's running trials first), tell each as it arrives."""
        with _timed(self.seconds, "sampling"):
            trials = self.stored.running()
            asked = first + size - len(self._numbers_in(0, first + size)) - len(trials)
            if asked > 0 and self.stored.is_shared and isinstance(self.sampler, GenerationalSampler):
                trials = self._ask_at_once(first, size, asked)
            elif asked > 0:
                trials += self.stored.ask(asked)
        if not trials:
            return 0
        genes = self.stored.genes_of(trials)
        number = np.array([t.number for t in trials])

        def tell(rows: np.ndarray, metrics: Metrics) -> None:
            batch = Batch(number[rows], genes[rows], metrics, self.rooms.objective.score(metrics))
            mine = [trials[row] for row in rows.tolist()]
            if isinstance(self.sampler, GenerationalSampler):
                self.stored.tell_all(mine, batch)
            else:  # Optuna's own may keep notes when a trial is told
                for i, trial in enumerate(mine):
                    self.stored.tell(trial, batch, i)
            self.ledger.add(batch)
            self.listener.on_designs(len(rows))

        self.evaluator.on_result = tell
        with _timed(self.seconds, "evaluation"):
            self.evaluator.evaluate(self.rooms.space.designs(genes), self.rooms.workloads)
        return len(trials)

    def _ask_at_once(self, first: int, size: int, asked: int) -> list[Trial]:
        """The generation's last `asked` slots (the earlier ones exist), and whatever is still running."""
        archive = self.ledger.archive(self.rooms.space.n_genes)
        earlier = archive.take(np.flatnonzero(archive.number < first))
        generation = self.sampler.slot_of(first)[0]
        genes = self.sampler.propose(self.rooms.space, generation, earlier)[size - asked :]
        if not len(genes):
            return self.stored.running()
        return self.stored.ask_for(genes, first + size - asked)

    # ------------------------------------------------------------ reporting
    def _report(self, generation: int, first: int, size: int, new: int, seconds: float) -> None:
        everything = self.ledger.merged()
        rows = (everything.number >= first) & (everything.number < first + size)
        upto = everything.number < first + size
        stats = generation_stats(generation, everything, rows, upto, new / seconds if seconds > 0 else 0.0)
        self.history.append(stats)
        self.listener.on_generation(stats)


def generation_stats(
    generation: int, everything: Batch, rows: np.ndarray, upto: np.ndarray, rate: float
) -> GenerationStats:
    """Figures of the rows of one generation; medians and bests over feasible designs only."""
    value, feasible = everything.scores.scalar, everything.scores.feasible
    now, so_far = value[rows & feasible], value[upto & feasible]
    return GenerationStats(
        generation=generation,
        n_evaluated=int(upto.sum()),
        best=float(so_far.min()) if so_far.size else None,
        generation_best=float(now.min()) if now.size else None,
        generation_median=float(np.median(now)) if now.size else None,
        feasible_share=float(feasible[rows].mean()),
        failed=int(everything.scores.errors[rows].sum()),
        diversity=diversity(everything.genes[rows]),
        evaluations_per_s=rate,
        hypervolume=hypervolume_so_far(everything, upto & feasible),
    )


def hypervolume_so_far(everything: Batch, rows: np.ndarray) -> float | None:
    """Share of the box up to the reference that feasible `rows` dominate; None with one goal or no such row.

    The reference is the worst value of each goal among the first START_OF_BOX feasible designs, so it is fixed
    early and is the same after a resume.
    """
    values = everything.scores.values
    if values.shape[1] == 1 or not rows.any():
        return None
    feasible = np.flatnonzero(everything.scores.feasible)
    reference = values[feasible[:START_OF_BOX]].max(axis=0)
    points = values[rows] / reference
    front = points[non_dominated(points)]
    return hypervolume(front, np.ones(values.shape[1]))


def diversity(genes: np.ndarray) -> float:
    """Mean share of genes in which two designs differ, over all pairs; 0 for fewer than two designs."""
    n = len(genes)
    if n < 2 or not genes.shape[1]:
        return 0.0
    same = 0
    for column in genes.T:
        counts = np.unique(column, return_counts=True)[1].astype(float)
        same += float((counts * (counts - 1)).sum())
    return 1.0 - same / (n * (n - 1) * genes.shape[1])


class _timed:
    """Adds a block's wall seconds to one entry."""

    def __init__(self, seconds: dict[str, float], key: str) -> None:
        self._seconds, self._key = seconds, key

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._key] += time.perf_counter() - self._began
