"""`cimopt`: verbs, help and exit codes. Nothing heavy is imported before a verb is known."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

VERBS = {
    "search": "search a space with a genetic algorithm or another sampler (Hydra overrides, -m for sweeps)",
    "enumerate": "evaluate a whole space: the exact optimum, the top designs, the Pareto front",
    "evaluate": "evaluate one design (tables, breakdowns) or a file of designs",
    "bench": "compare samplers with the enumerated optimum over seeds and spaces",
    "report": "show finished runs again, one in full or many side by side",
    "profile": "run an ONNX network on images and write its quantised activations",
    "plugins": "list installed evaluators, samplers, workloads and their distributions",
    "plugin": "begin an evaluator of your own: `cimopt plugin new NAME`",
    "cluster": "start a Ray cluster of several nodes on this machine, for trying",
    "ui": "open the MLflow UI on this folder's runs",
    "workload": "show a network's layers and totals; import one from ONNX, Timeloop, ZigZag or SCALE-Sim",
}

EXAMPLES = """examples:
  cimopt search                                   the default: space=rram workload=cnn4 evaluator=tiled_physical objective=edap
  cimopt search space=sram 'workload=[resnet18,vgg16]' objective=energy seed=2
  cimopt search -m seed=1,2,3 objective=edap,energy
  cimopt search space.fix.xbar_rows=256 objective.area_max_mm2=400 hydra.run.dir=runs/mine
  cimopt search --cfg job                         print the composed configuration
  cimopt enumerate space=rram_small
  cimopt evaluate design.xbar_rows=256 design.xbar_cols=64 ...
  cimopt evaluate designs=designs.csv out=metrics.csv

exit codes: 0 done, 2 bad input, 3 nothing feasible, 130 interrupted
`cimopt VERB --help` tells more."""


def usage() -> str:
    verbs = "\n".join(f"  {verb:<10} {text}" for verb, text in VERBS.items())
    return f"usage: cimopt VERB [arguments]\n\nFinds the best in-memory-computing accelerator for a set of networks.\n\nverbs:\n{verbs}\n\n{EXAMPLES}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage())
        return 0 if arguments else 2
    if arguments[0] in ("--version", "-V"):
        from cimopt import __version__

        sys.stdout.write(f"cimopt {__version__}\n")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        from cimopt.errors import unknown_name

        sys.stderr.write(f"cimopt: {unknown_name('verb', verb, VERBS)}\n")
        return 2
    return import_module(f"cimopt.commands.{verb}").main(rest)


if __name__ == "__main__":
    sys.exit(main())
