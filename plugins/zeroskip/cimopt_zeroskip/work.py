"""The work of a layer on a chip, in three fidelities behind one interface.

- `TraceWork` (exact): every operation of every image in order.
- histogram: `Histogram` keeps how often each op-cycle value occurs, per block and of the slowest block;
  `Histogram.work` draws queues from it (fixed seed) and runs those exactly.
- `TotalsWork`: closed form from one total per block.

Without zero-skipping every operation takes the same time: `UniformWork`, closed form and exact.
All cycles are per image; a network profiled on several images gives means over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cimopt.errors import InputError
from cimopt_zeroskip.bits import _forms, cost_table, cycles_by_block
from cimopt_zeroskip.mapping import MappedLayer
from cimopt_zeroskip.profile import Profile
from cimopt_zeroskip.queueing import NO_LIMIT

FIDELITIES = ("trace", "histogram", "totals")


class LayerWork:
    """One mapped layer's work. Subclasses hold it in their own form.

    Attributes:
        mapped: the layer on its arrays.
        block_total: cycles all operations of a block take, one image, float64 ``(blocks,)``.
        sync_total: the same with the barrier, i.e. sum over patches of the slowest block.
        ones: ones over all operations of a block, float64 ``(blocks,)``.
        write_cycles: cycles before the first operation, in which an operand is written; 0 for stored weights.
    """

    mapped: MappedLayer
    block_total: np.ndarray
    sync_total: float
    ones: np.ndarray
    write_cycles = 0.0

    def layer_cycles(self, copies: int) -> float:
        """Cycles with ``copies`` duplicates of the whole layer and the barrier."""
        raise NotImplementedError

    def shared_cycles(self, copies: int) -> float:
        """Those of them that copies share: without writing."""
        return self.layer_cycles(copies)

    def block_cycles(self, copies: np.ndarray) -> np.ndarray:
        """Cycles of each block with its own copies, ``(blocks,)``."""
        raise NotImplementedError

    def fewest(self, dataflow: str, limit: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Fewest copies per unit (the layer, or each block) with cycles <= limit; 0 where none does.

        The numbers are known to be at least ``low`` and at most ``high`` (0: not known). Here for closed forms:
        bisection over the number of copies.
        """
        ends = np.full(len(low), max(self.mapped.patches, 1), dtype=np.int64)
        works = np.where(self._units(dataflow, ends) <= limit, ends, 0)
        fails = np.minimum(low, ends) - 1
        while (works - fails > 1).any():
            middle = np.where(works - fails > 1, (works + fails) // 2, np.maximum(works, 1))
            good = self._units(dataflow, middle) <= limit
            open_ = works - fails > 1
            works, fails = np.where(open_ & good, middle, works), np.where(open_ & ~good, middle, fails)
        return works

    def _units(self, dataflow: str, copies: np.ndarray) -> np.ndarray:
        if dataflow == "layer":
            return np.array([self.layer_cycles(int(copies[0]))])
        return self.block_cycles(copies)


@dataclass
class TraceWork(LayerWork):
    """Op cycles of every operation: ``jobs`` int32 ``(images, blocks, patches)``. Exact."""

    mapped: MappedLayer
    jobs: np.ndarray
    ones: np.ndarray
    compiled: bool = True

    @cached_property
    def slowest(self) -> np.ndarray:
        """Slowest block of every patch, int32 ``(images, 1, patches)``."""
        return self.jobs.max(axis=1, keepdims=True)

    @cached_property
    def block_total(self) -> np.ndarray:
        return self.jobs.sum(axis=(0, 2), dtype=np.int64) / len(self.jobs)

    @cached_property
    def sync_total(self) -> float:
        return int(self.slowest.sum(dtype=np.int64)) / len(self.jobs)

    @cached_property
    def _known(self) -> dict[tuple[int, int], float]:
        """Makespans found before: (unit, copies) -> cycles; unit -1 is the whole layer."""
        return {}

    def layer_cycles(self, copies: int) -> float:
        key = (-1, int(copies))
        if key not in self._known:
            total = _forms(self.compiled).unit_cycles(self.slowest, np.array([copies], dtype=np.int64), NO_LIMIT)
            self._known[key] = int(total[0]) / len(self.jobs)
        return self._known[key]

    def block_cycles(self, copies: np.ndarray) -> np.ndarray:
        keys = [(b, c) for b, c in enumerate(np.asarray(copies).tolist())]
        new = [b for b, key in enumerate(keys) if key not in self._known]
        if new:
            wanted = np.asarray(copies, dtype=np.int64)[new]
            jobs = self.jobs if len(new) == len(keys) else self.jobs[:, new]
            for b, total in zip(new, _forms(self.compiled).unit_cycles(jobs, wanted, NO_LIMIT).tolist(), strict=True):
                self._known[keys[b]] = total / len(self.jobs)
        return np.array([self._known[key] for key in keys])

    def fewest(self, dataflow: str, limit: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        jobs = self.slowest if dataflow == "layer" else self.jobs
        totals = self._totals if dataflow == "block" else self._totals_of_slowest
        return _forms(self.compiled).fewest_copies(jobs, totals, int(limit) * len(self.jobs), low, high)

    @cached_property
    def _totals(self) -> np.ndarray:
        return self.jobs.sum(axis=(0, 2), dtype=np.int64)

    @cached_property
    def _totals_of_slowest(self) -> np.ndarray:
        return self.slowest.sum(axis=(0, 2), dtype=np.int64)

    def histogram(self) -> Histogram:
        """The distribution of op cycles, without their order."""
        values, place = np.unique(self.jobs, return_inverse=True)
        place = place.reshape(self.jobs.shape)
        counts = np.stack([np.bincount(place[:, b].ravel(), minlength=len(values)) for b in range(place.shape[1])])
        sync = np.bincount(np.searchsorted(values, self.slowest.ravel()), minlength=len(values))
        return Histogram(self.mapped, values, counts, sync, self.ones, len(self.jobs))

    def totals(self) -> TotalsWork:
        """Only the sums."""
        return TotalsWork(self.mapped, self.block_total, self.sync_total, self.ones)


@dataclass(frozen=True)
class Histogram:
    """Counts of op-cycle values over ``images``: ``values`` ``(v,)``, ``counts`` ``(blocks, v)``, ``sync`` ``(v,)``."""

    mapped: MappedLayer
    values: np.ndarray
    counts: np.ndarray
    sync: np.ndarray
    ones: np.ndarray
    images: int

    def work(self, seed: int = 0) -> HistogramWork:
        """Queues of one image drawn from the counts: evenly spaced quantiles in a random order (fixed seed)."""
        rng = np.random.default_rng(seed)
        jobs = np.stack([self._draw(row, rng) for row in [*self.counts, self.sync]])
        blocks = len(self.counts)
        means = self.counts @ self.values / self.images, float(self.sync @ self.values) / self.images
        return HistogramWork(self.mapped, jobs[None, :blocks], self.ones, drawn_sync=jobs[None, blocks:], exact=means)

    def _draw(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        ordered = np.repeat(self.values, counts)[self.images // 2 :: self.images].astype(np.int32)
        return rng.permutation(ordered)


@dataclass
class HistogramWork(TraceWork):
    """Drawn queues; totals are those of the histogram, so allocations by totals are exact."""

    drawn_sync: np.ndarray | None = None
    exact: tuple[np.ndarray, float] = (np.zeros(0), 0.0)

    @cached_property
    def slowest(self) -> np.ndarray:
        return self.drawn_sync

    @cached_property
    def block_total(self) -> np.ndarray:
        return self.exact[0]

    @cached_property
    def sync_total(self) -> float:
        return self.exact[1]


@dataclass
class TotalsWork(LayerWork):
    """Closed form: ``(T + (D - 1) / 2 * T / R) / D`` cycles with D copies, T the total and R the patches.

    The second term is half a mean operation per copy: what a queue in order waits at its end on average.
    """

    mapped: MappedLayer
    block_total: np.ndarray
    sync_total: float
    ones: np.ndarray

    def _estimate(self, total: np.ndarray, copies: np.ndarray) -> np.ndarray:
        copies = np.minimum(copies, self.mapped.patches)
        return (total + 0.5 * (copies - 1) * total / self.mapped.patches) / copies

    def layer_cycles(self, copies: int) -> float:
        return float(self._estimate(np.float64(self.sync_total), np.float64(copies)))

    def block_cycles(self, copies: np.ndarray) -> np.ndarray:
        return self._estimate(self.block_total, np.asarray(copies, dtype=np.float64))


@dataclass
class UniformWork(LayerWork):
    """No zero-skipping: block b takes ``each[b]`` cycles every time. Exact."""

    mapped: MappedLayer
    each: np.ndarray
    ones: np.ndarray

    @property
    def block_total(self) -> np.ndarray:
        return self.each.astype(np.float64) * self.mapped.patches

    @property
    def sync_total(self) -> float:
        return float(self.each.max()) * self.mapped.patches

    def layer_cycles(self, copies: int) -> float:
        return float(-(-self.mapped.patches // copies) * self.each.max())

    def block_cycles(self, copies: np.ndarray) -> np.ndarray:
        return (-(-self.mapped.patches // np.asarray(copies, dtype=np.int64)) * self.each).astype(np.float64)


def uniform_work(mapped: MappedLayer, ones: np.ndarray | None = None) -> UniformWork:
    """Work without zero-skipping: all rows of the array, or only the used ones (`ArraySpec.used_rows_only`)."""
    spec = mapped.spec
    rows = mapped.block_rows if spec.used_rows_only else np.full(mapped.blocks, spec.xbar_rows)
    each = np.array([spec.dense_cycles(int(r)) for r in rows], dtype=np.int64)
    # Without a profile half of the inputs' bits are taken to be ones.
    known = 0.5 * mapped.patches * mapped.block_rows * spec.input_bits if ones is None else ones
    return UniformWork(mapped, each, np.asarray(known, dtype=np.float64))


def trace_work(
    profile: Profile, index: int, mapped: MappedLayer, images: list[int], *, compiled: bool = True
) -> LayerWork:
    """Exact work of one profiled layer on the chosen images (without skipping: `UniformWork`)."""
    spec = mapped.spec
    table = cost_table(spec.xbar_rows, spec.rows_per_read, spec.input_bits, spec.cols_per_adc, spec.floor)
    low = _dropped_planes(profile, mapped)
    counts = [profile.counts(index, mapped, image)[:, :, low:] for image in images]
    ones = np.mean([c.sum(axis=(0, 2), dtype=np.int64) for c in counts], axis=0)
    if not spec.skip:
        return uniform_work(mapped, ones)
    jobs = np.stack([cycles_by_block(c, table, compiled=compiled) for c in counts])
    return TraceWork(mapped, jobs, ones, compiled)


def _dropped_planes(profile: Profile, mapped: MappedLayer) -> int:
    """Planes below the layer's activation bits: narrower inputs are the profile's codes without their lowest bits."""
    have, wanted = profile.input_bits, mapped.spec.input_bits
    if wanted > have:
        kind = "drawn activations have" if profile.synthetic else f"profile '{profile.name}' holds"
        raise InputError(f"layer '{mapped.name}': activation_bits={wanted}, but {kind} {have} bits")
    return have - wanted


def at_fidelity(work: LayerWork, fidelity: str) -> LayerWork:
    """The same work, coarser: "trace" (as it is), "histogram" or "totals"."""
    if not isinstance(work, TraceWork) or fidelity == "trace":
        return work
    return work.histogram().work() if fidelity == "histogram" else work.totals()
