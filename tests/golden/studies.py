"""Small studies whose designs and scores must not change: `python -m tests.golden.studies FOLDER` rewrites the file.

Made with version 1 of the stores and samplers, before they got one interface; a change of these numbers is a
change of what the same seed gives, and needs a reason and a line in the changelog.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.parquet

from cimopt import plugins
from cimopt.cli import main
from cimopt.evaluators.one_by_one import OneByOneEvaluator

FILE = Path(__file__).with_name("studies.json")
SMALL = ("space=rram_small", "workload=[alexnet,resnet18]", "tracking=none", "report.plots=false", "seed=3")
MODEL = "evaluator=tiled_published"  # its numbers are fixed by what was published
SLOW = "evaluator=slow_golden"
FEW = ("sampler.settings.start=40", "sampler.settings.pool=80", "sampler.stop_after=6")
TWO_HUNDRED = ("sampler.settings.budget=200",)
GOALS = ("objective=energy_latency_area",)

# name -> overrides
STUDIES: dict[str, tuple[str, ...]] = {
    "four_phase": ("sampler=four_phase", *FEW),
    "four_phase_whole_space": ("sampler=four_phase", "space=rram", *FEW),
    "four_phase_paper": ("sampler=four_phase_paper", *FEW),
    "four_phase_generation": ("sampler=four_phase", "study.store=generation", *FEW),
    "four_phase_best": ("sampler=four_phase", "study.store=best", *FEW),
    "four_phase_goals": ("sampler=four_phase", *FEW, *GOALS),
    "four_phase_slow": ("sampler=four_phase", SLOW, "objective=energy", "runner=serial", *FEW),
    "plain_ga": ("sampler=plain_ga", *TWO_HUNDRED),
    "plain_ga_hamming": ("sampler=plain_ga_hamming", "sampler.settings.start=80", *TWO_HUNDRED),
    "random": ("sampler=random", *TWO_HUNDRED),
    "tpe": ("sampler=tpe", "sampler.settings.budget=80"),
    "nsga2": ("sampler=nsga2", *TWO_HUNDRED),
    "cmaes": ("sampler=cmaes", *TWO_HUNDRED),
    "pymoo_ga": ("sampler=pymoo_ga", *TWO_HUNDRED),
    "pymoo_pso": ("sampler=pymoo_pso", *TWO_HUNDRED),
}


class SlowGolden(OneByOneEvaluator):
    """A closed form that the loop treats as a slow model: asked and told trial by trial."""

    name, version = "slow_golden", "1"
    requires, provides = ("xbar_rows", "xbar_cols", "bits_per_cell"), ("energy_j", "area_mm2")

    def evaluate_one(self, design, workload):
        cells = design["xbar_rows"] * design["xbar_cols"]
        return {
            "energy_j": workload.macs * 1e-15 * (1 + 300 / cells) / design["bits_per_cell"],
            "area_mm2": cells * 1e-4,
        }


def _load(group: str, name: str, load=plugins.load):
    return SlowGolden if name == SlowGolden.name else load(group, name)


def run(name: str, folder: Path) -> dict[str, object]:
    """Runs one study into `folder`; its count, best score and the fingerprint of every design in order."""
    overrides = (MODEL, *STUDIES[name])
    if SLOW in overrides:
        overrides = (*(o for o in overrides if o not in (SLOW, MODEL)), "evaluator=[]", "+evaluator.slow_golden={}")
    with mock.patch.object(plugins, "load", _load):
        code = main(["search", *SMALL, *overrides, f"hydra.run.dir={folder}"])
    assert code == 0, f"{name} ended with {code}"
    result = json.loads((folder / "result.json").read_text())
    table = pyarrow.parquet.read_table(folder / "trials.parquet").to_pydict()
    parameters = list(result["best"]["design"])
    rows = [[table[p][i] for p in parameters] for i in np.argsort(table["number"], kind="stable")]
    digest = hashlib.sha256(json.dumps([parameters, rows]).encode()).hexdigest()
    return {
        "designs": len(rows),
        "n_evaluated": result["n_evaluated"],
        "best": result["best"]["score"],
        "sha256": digest,
    }


def rewrite(folder: Path) -> None:
    """Runs every study and writes the golden file."""
    FILE.write_text(json.dumps({name: run(name, folder / name) for name in STUDIES}, indent=1) + "\n")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
