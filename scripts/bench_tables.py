"""Markdown tables of a bench's `result.json`, for docs and experiment pages.

python scripts/bench_tables.py RESULT.json [SPACE ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HEAD = "| sampler | mean (95 % interval) | std | median regret | exact (95 % interval) | < 1 % | evaluations to 1 % |"
RULE = "|---|---|---|---|---|---|---|"


def table(samplers: dict[str, dict]) -> str:
    rows = []
    for name, s in samplers.items():
        interval = s["mean_ci95"]
        mean = (
            ""
            if s["mean"] is None
            else f"{s['mean']:.3f}" + (f" ({interval[0]:.3f}-{interval[1]:.3f})" if interval else "")
        )
        exact = f"{s['found_optimum']}/{s['runs']} ({s['found_optimum_ci95'][0]:.0%}-{s['found_optimum_ci95'][1]:.0%})"
        regret = "over half found nothing" if s["median_regret"] is None else f"{s['median_regret']:.2%}"
        evaluations = (
            "" if s["median_evaluations_to_1_percent"] is None else f"{s['median_evaluations_to_1_percent']:.0f}"
        )
        std = "" if s["std"] is None else f"{s['std']:.3f}"
        note = f" ({s['none_feasible']} runs found nothing)" if s["none_feasible"] else ""
        rows.append(
            f"| `{name}`{note} | {mean} | {std} | {regret} | {exact} | {s['within_1_percent']}/{s['runs']} | {evaluations} |"
        )
    return "\n".join([HEAD, RULE, *rows])


def main() -> None:
    result = json.loads(Path(sys.argv[1]).read_text())
    for space in sys.argv[2:] or result["spaces"]:
        found = result["spaces"][space]
        sys.stdout.write(f"\n`{space}`, optimum {found['optimum']:.6g} mJ.ms.mm2:\n\n{table(found['samplers'])}\n")


if __name__ == "__main__":
    main()
