"""The optimum of a whole space under the published and under the physical preset, and what that says.

    python experiments/published_vs_physical/run.py [--spaces sram,rram] [--out FOLDER]

Enumerates every design with `cimopt`'s exhaustive engine (EDAP, largest of four CNNs, area at most 800 mm2) and
writes RESULT.md. On one core: sram about a minute, rram about four.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cimopt.config.assemble import Rooms, assemble
from cimopt.config.compose import compose
from cimopt.config.schema import parse
from cimopt.engine.exhaustive import Enumeration

HERE = Path(__file__).resolve().parent
# Lossless: 16 rows at once (16 x 15 + 1 sums of 4-bit cells fit 8 bits), and no converter may clip.
LOSSLESS = ("evaluator.tiled_physical.rows_per_read=16", "objective.limits.adc_clips={max: 0}")
PRESETS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "published": ("cnn4_published", "tiled_published", ()),
    "physical": ("cnn4", "tiled_physical", ()),
    "lossless": ("cnn4", "tiled_physical", LOSSLESS),
}
LOOKED_AT = ("t_cycle_ns", "bits_per_cell", "v_op")
CHUNK = 1 << 17


@dataclass(frozen=True)
class Optimum:
    """The best design of a space: its values, score, metrics per workload, and the best score per choice."""

    design: dict[str, float]
    score: float
    metrics: dict[str, np.ndarray]
    best_with: dict[str, dict[str, float]]
    n_feasible: int
    n: int


def rooms_of(space: str, preset: str) -> Rooms:
    workload, evaluator, more = PRESETS[preset]
    overrides = [f"space={space}", f"workload={workload}", f"evaluator=[{evaluator}]", "runner=serial", "tracking=none"]
    overrides += more
    plain = {k: v for k, v in compose(overrides).items() if k != "hydra"}
    return assemble(parse(plain, workload))


def optimum(rooms: Rooms) -> Optimum:
    """Enumerate the space and take its best design apart."""
    with tempfile.TemporaryDirectory() as folder:
        enumeration = Enumeration(rooms, Path(folder), chunk=CHUNK, top=5)
        for _ in enumeration.run():
            pass
        reduced = enumeration.reduced
    best = rooms.space.designs(reduced.top_genes[:1])
    metrics = rooms.chain.evaluate(best, rooms.workloads, "components")
    parameters = rooms.space.parameters.parameters
    best_with = {
        p.name: {str(c): float(reduced.marginals[g, k]) for k, c in enumerate(p.choices)}
        for g, p in enumerate(parameters) if p.name in LOOKED_AT
    }  # fmt: skip
    values = {k: v[0] for k, v in metrics.values.items()}
    return Optimum(best.row(0), float(reduced.top_values[0]), values, best_with, reduced.n_feasible, reduced.n)


def score_under(rooms: Rooms, design: dict) -> float:
    """EDAP of one design in another preset's rooms; infinite where it is infeasible."""
    known = {k: v for k, v in design.items() if k in rooms.space.parameters.all_names}
    metrics = rooms.chain.evaluate(rooms.space.designs(rooms.space.encode(known)[None, :]), rooms.workloads)
    scores = rooms.objective.score(metrics)
    return float(scores.values[0, 0]) if scores.feasible[0] else float("inf")


def table(space: str, found: dict[str, Optimum], crossed: dict[str, dict[str, float]]) -> list[str]:
    """The optima side by side, and what fixing one value costs."""
    some = list(found.values())
    head = [f"| | {' | '.join(found)} |", "|---|" + "---|" * len(found)]

    def row(label: str, values: list) -> str:
        return f"| {label} | " + " | ".join(v if isinstance(v, str) else f"{v:.4g}" for v in values) + " |"

    lines = [f"## {space}: {some[0].n:,} designs", "", *head]
    lines += [row(name, [str(o.design[name]) for o in some]) for name in some[0].design]
    lines.append(row("EDAP under its own preset, mJ.ms.mm2", [o.score for o in some]))
    lines += [row(f"EDAP under {other}", list(scores.values())) for other, scores in crossed.items()]
    lines += [
        row("feasible designs", [f"{o.n_feasible:,}" for o in some]),
        row("area, mm2", [float(o.metrics["area_mm2"]) for o in some]),
        row("energy, worst network, mJ", [o.metrics["energy_j"].max() * 1e3 for o in some]),
        row("latency, worst network, ms", [o.metrics["latency_s"].max() * 1e3 for o in some]),
        row("cycle as it must be, ns", [_of(o, "t_cycle_eff_s", 1e9) for o in some]),
        row("converter bits needed", [_of(o, "adc_bits_needed", 1.0) for o in some]),
        "",
    ]
    for preset, o in found.items():
        terms = {k.partition(".")[2]: v.sum() for k, v in o.metrics.items() if k.startswith("latency_s.")}
        if terms:
            total = sum(terms.values())
            shares = [
                f"{k} {v / total:.0%}" for k, v in sorted(terms.items(), key=lambda t: -t[1]) if v / total > 0.005
            ]
            lines += [f"Latency of the four networks, {preset}: {', '.join(shares)}.", ""]
    for name in LOOKED_AT:
        if name in some[0].best_with:
            lines += [f"Best EDAP with each `{name}`, relative to the optimum:", "", *head]
            lines += [row(c, [_ratio(o, name, c) for o in some]) for c in some[0].best_with[name]] + [""]
    return lines


def _of(found: Optimum, metric: str, factor: float) -> float | str:
    return float(np.max(found.metrics[metric])) * factor if metric in found.metrics else "-"


def _ratio(found: Optimum, name: str, choice: str) -> str:
    value = found.best_with[name][choice]
    return f"{value / found.score:.3f}" if np.isfinite(value) else "nothing feasible"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", default="sram,rram")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    lines = ["# Published and physical optimum of the same space", "", "Written by `run.py`.", ""]
    for space in options.spaces.split(","):
        presets = [p for p in PRESETS if p != "lossless" or space.startswith("rram")]
        rooms = {preset: rooms_of(space, preset) for preset in presets}
        found = {preset: optimum(r) for preset, r in rooms.items()}
        crossed = {
            other: {preset: score_under(rooms[other], o.design) for preset, o in found.items()}
            for other in ("published", "physical")
        }
        lines += table(space, found, crossed)
        print("\n".join(lines[-60:]), flush=True)
    (options.out / "RESULT.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
