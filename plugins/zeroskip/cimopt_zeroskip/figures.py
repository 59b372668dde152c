"""What the paper's figures show, computed for any network's work: points, bottlenecks, utilisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cimopt_zeroskip.chip import PAPER_POLICIES, ChipRun, needed_arrays, plan_and_run, run
from cimopt_zeroskip.mapping import ArraySpec, map_layers
from cimopt_zeroskip.networks import Network
from cimopt_zeroskip.profile import Profile
from cimopt_zeroskip.settings import Settings
from cimopt_zeroskip.work import LayerWork, trace_work, uniform_work

# Sizes of the paper's chips over the fewest arrays: 8192, 12288, 16384 and 24576 of 5472.
PAPER_SIZES = (1.0, 8192 / 5472, 12288 / 5472, 16384 / 5472, 24576 / 5472)


@dataclass(frozen=True)
class Line:
    """Least squares: cycles = slope x (percent of ones) + intercept."""

    slope: float
    intercept: float
    r2: float


def fit_line(percent: np.ndarray, cycles: np.ndarray) -> Line:
    """Straight line through points ``(n,)``."""
    slope, intercept = np.polyfit(percent, cycles, 1)
    rest = cycles - (slope * percent + intercept)
    return Line(float(slope), float(intercept), float(1 - rest.var() / cycles.var()))


def layer_points(works: Sequence[LayerWork], *, over: str = "used") -> tuple[np.ndarray, np.ndarray]:
    """Fig 4, per layer: percent of ones (over the ``used`` rows or all ``array`` rows), mean cycles of an operation."""
    rows = [w.mapped.rows if over == "used" else w.mapped.blocks * w.mapped.spec.xbar_rows for w in works]
    inputs = [r * w.mapped.patches * w.mapped.spec.input_bits for r, w in zip(rows, works, strict=True)]
    percent = [100 * w.ones.sum() / n for w, n in zip(works, inputs, strict=True)]
    cycles = [float(w.block_total.mean()) / w.mapped.patches for w in works]
    return np.array(percent), np.array(cycles)


def cycles_per_full_array(works: Sequence[LayerWork]) -> np.ndarray:
    """Fig 4's axis as the authors compute it: cycles with the barrier, per ``rows x outputs`` MACs of a full array."""
    out = []
    for w in works:
        spec = w.mapped.spec
        full = spec.xbar_rows * (spec.xbar_cols // spec.cells_per_weight)
        out.append(full * w.sync_total * w.mapped.arrays / w.mapped.macs)
    return np.array(out)


def block_points(work: LayerWork) -> tuple[np.ndarray, np.ndarray]:
    """Fig 6: percent of ones over an array's rows, and mean cycles of an operation, one point per block."""
    spec = work.mapped.spec
    percent = 100 * work.ones / (work.mapped.patches * spec.xbar_rows * spec.input_bits)
    return percent, work.block_total / work.mapped.patches


def spread(cycles: np.ndarray) -> float:
    """Slowest block over fastest, less one."""
    return float(cycles.max() / cycles.min() - 1)


def chip_sizes(works: Sequence[LayerWork]) -> tuple[int, ...]:
    """Five chips in the paper's proportions."""
    return tuple(round(needed_arrays(works) * factor) for factor in PAPER_SIZES)


def dense(works: Sequence[LayerWork], *, used_rows_only: bool = False) -> list[LayerWork]:
    """The same layers without zero-skipping."""
    from dataclasses import replace

    out: list[LayerWork] = []
    for work in works:
        spec = replace(work.mapped.spec, skip=False, used_rows_only=used_rows_only)
        out.append(uniform_work(replace(work.mapped, spec=spec), work.ones))
    return out


def paper_runs(works: Sequence[LayerWork], n_arrays: int) -> dict[str, ChipRun]:
    """Fig 8 and 9: the paper's four policies on one chip."""
    plain = dense(works)
    return {
        name: plan_and_run(works if skip else plain, n_arrays, policy, dataflow)
        for name, (policy, dataflow, skip) in PAPER_POLICIES.items()
    }


def fairer_runs(works: Sequence[LayerWork], n_arrays: int) -> dict[str, ChipRun]:
    """Baselines the paper leaves out, and the provable optimum of both dataflows."""
    return {
        "op-count, layer-wise": plan_and_run(works, n_arrays, "op_count", "layer"),
        "op-count, block-wise": plan_and_run(works, n_arrays, "op_count", "block"),
        "no skipping, used rows, block-wise": plan_and_run(
            dense(works, used_rows_only=True), n_arrays, "profile", "block"
        ),
        "optimal, layer-wise": plan_and_run(works, n_arrays, "optimal", "layer"),
        "optimal, block-wise": plan_and_run(works, n_arrays, "optimal", "block"),
    }


def speedups(runs: Mapping[str, ChipRun], over: str = "block-wise") -> dict[str, float]:
    """How many times faster ``over`` is than each run."""
    return {name: chip.cycles / runs[over].cycles for name, chip in runs.items()}


def network_works(
    profile: Profile, spec: ArraySpec | None = None, images: Sequence[int] | None = None
) -> list[LayerWork]:
    """Exact work of a profiled network on the chosen images (all by default)."""
    mapped = map_layers(profile.workload.layers, spec or ArraySpec())
    chosen = list(range(profile.n_images)) if images is None else list(images)
    return [trace_work(profile, i, m, chosen) for i, m in enumerate(mapped)]


def synthetic_works(workload, spec: ArraySpec | None = None) -> list[LayerWork]:
    """Work of drawn activations, for networks without a profile."""
    return Network(workload, Settings(profiles={workload.name: "synthetic"})).works(spec or ArraySpec())


def unseen(planned_on: Sequence[LayerWork], seen: Sequence[LayerWork], n_arrays: int) -> dict[str, float]:
    """Cycles on other images than those that were profiled, over cycles of a plan made for them: 1 is no loss."""
    out = {}
    for name, (policy, dataflow, skip) in PAPER_POLICIES.items():
        if skip:
            copies = plan_and_run(planned_on, n_arrays, policy, dataflow).copies
            own = plan_and_run(seen, n_arrays, policy, dataflow).cycles
            out[name] = run(seen, copies, dataflow, n_arrays).cycles / own
    return out
