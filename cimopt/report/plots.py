"""Pictures of a run, saved as PNG. Matplotlib is imported when used and draws without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.scores.pareto import non_dominated

# Colour-blind safe (Okabe-Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")


def _figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(rows, columns, figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def convergence(path: Path, history: Sequence[Any], unit: str, title: str) -> Path:
    """Best so far and generation median over evaluated designs; feasible share and diversity below."""
    figure, (top, bottom) = _figure(7.5, 6, rows=2)
    x = [s.n_evaluated for s in history]
    top.plot(x, _numbers(s.best for s in history), color=COLOURS[0], label="best so far")
    top.plot(
        x,
        _numbers(s.generation_median for s in history),
        color=COLOURS[1],
        ls="--",
        label="generation median (feasible)",
    )
    top.set(yscale="log", ylabel=f"score ({unit})", title=title)
    top.legend()
    bottom.plot(x, [s.feasible_share for s in history], color=COLOURS[2], label="feasible share")
    bottom.plot(x, [s.diversity for s in history], color=COLOURS[3], label="diversity (mean Hamming / genes)")
    bottom.set(xlabel="designs evaluated", ylabel="share", ylim=(0, 1.02))
    bottom.legend()
    return _save(figure, path)


def _numbers(values: Any) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def landscape(path: Path, metrics: Any, scores: Any, best: int) -> Path | None:
    """Worst-workload energy against latency of every design with metrics, coloured by area; best marked."""
    if not {"energy_j", "latency_s"} <= set(metrics.values) or not metrics.ok.any():
        return None
    ok = metrics.ok
    energy, latency = (_worst(metrics.values[k]) for k in ("energy_j", "latency_s"))
    area = metrics.values.get("area_mm2")
    figure, axis = _figure(7.5, 5)
    feasible = scores.feasible
    axis.scatter(latency[ok & ~feasible] * 1e3, energy[ok & ~feasible] * 1e3, s=8, c="0.8", label="infeasible")
    shown = axis.scatter(
        latency[feasible] * 1e3, energy[feasible] * 1e3, s=12, c=area[feasible] if area is not None else COLOURS[0],
        cmap="viridis", label="feasible",
    )  # fmt: skip
    axis.scatter(latency[best] * 1e3, energy[best] * 1e3, s=140, marker="*", c=COLOURS[5], label="best", zorder=3)
    if area is not None and feasible.any():
        figure.colorbar(shown, label="area (mm2)")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="latency of the slowest workload (ms)",
        ylabel="energy of the costliest workload (mJ)",
    )
    axis.legend()
    return _save(figure, path)


def bands(path: Path, x: np.ndarray, curves: dict[str, np.ndarray], title: str) -> Path:
    """Regret over evaluations: median line and 10-90 % band per sampler; `curves[name]` is (runs, len(x))."""
    figure, axis = _figure(8, 5.5)
    floor = 1e-4  # an exact hit has no place on a logarithmic axis: it sits on the floor
    for k, (name, values) in enumerate(curves.items()):
        ordered = np.sort(values, axis=0)  # not np.quantile: it interpolates, and infinities do not
        low, middle, high = (ordered[round(q * (len(values) - 1))] for q in (0.1, 0.5, 0.9))
        colour, style = COLOURS[k % len(COLOURS)], "-" if k < len(COLOURS) else "--"
        axis.plot(
            x, np.where(np.isfinite(middle), np.maximum(middle, floor), np.nan), color=colour, ls=style, label=name
        )
        shown = np.isfinite(high)
        axis.fill_between(
            x[shown], np.maximum(low[shown], floor), np.maximum(high[shown], floor), color=colour, alpha=0.12
        )
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="designs evaluated",
        ylabel=f"regret, best/optimum - 1 (floor {floor:g})",
        title=title,
    )
    axis.legend(fontsize=8, ncols=2)
    return _save(figure, path)


def front(path: Path, scores: Any, goals: Sequence[str], units: dict[str, str]) -> Path:
    """Feasible designs over the first two goals, the Pareto front marked (coloured by a third goal)."""
    figure, axis = _figure(7.5, 5)
    points = scores.values[scores.feasible]
    best = points[non_dominated(points)]
    axis.scatter(points[:, 0], points[:, 1], s=8, c="0.8", label="feasible")
    shown = axis.scatter(
        best[:, 0], best[:, 1], s=24, c=best[:, 2] if len(goals) > 2 else COLOURS[5], label="Pareto front"
    )
    if len(goals) > 2:
        figure.colorbar(shown, label=f"{goals[2]} ({units[goals[2]]})")
    x, y = (f"{name} ({units[name]})" for name in goals[:2])
    axis.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axis.legend()
    return _save(figure, path)


def _worst(values: np.ndarray) -> np.ndarray:
    return values if values.ndim == 1 else values.max(axis=1)


def stacked_bars(path: Path, labels: Sequence[str], parts: dict[str, np.ndarray], ylabel: str, title: str) -> Path:
    """One bar per label, stacked by part (component); `parts[name]` is (len(labels),)."""
    figure, axis = _figure(max(7.5, 0.28 * len(labels)), 5)
    bottom = np.zeros(len(labels))
    for k, (name, values) in enumerate(parts.items()):
        axis.bar(
            range(len(labels)),
            values,
            bottom=bottom,
            label=name,
            color=COLOURS[k % len(COLOURS)],
            hatch="//" if k >= len(COLOURS) else None,
        )
        bottom += values
    axis.set_xticks(range(len(labels)), labels, rotation=90 if len(labels) > 6 else 0, fontsize=8)
    axis.set(ylabel=ylabel, title=title)
    axis.legend(fontsize=8, ncols=2)
    return _save(figure, path)
