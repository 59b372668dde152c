"""`cimopt workload show NAME|FILE`: layers and totals of a network."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from cimopt.errors import CimoptError
from cimopt.types import Workload
from cimopt.workloads import SOURCES, format_table, load, names


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="cimopt workload", description="Networks: layers, MACs, weights, activations."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    show = verbs.add_parser("show", help="print one network's layers and totals")
    show.add_argument("name", help=f"a zoo name ({', '.join(names())}) or a YAML file")
    show.add_argument(
        "--source", default="zoo", choices=SOURCES, help="zoo: right shapes; published: layers as published"
    )
    show.add_argument("--json", action="store_true", help="machine-readable totals")
    verbs.add_parser("list", help="names of the zoo and of the published set")
    options = parser.parse_args(arguments)
    if options.verb == "list":
        for source in SOURCES:
            sys.stdout.write(f"{source}: {', '.join(names(source))}\n")
        return 0
    try:
        workload = load(options.name, source=options.source)
    except CimoptError as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return error.exit_code
    sys.stdout.write(_json(workload) if options.json else format_table(workload) + "\n")
    return 0


def _json(workload: Workload) -> str:
    totals = {
        "name": workload.name, "variant": workload.variant, "macs": workload.macs, "weights": workload.weights,
        "activations": workload.activations, "layers": workload.n_layers, "ignored": [],
    }  # fmt: skip
    return json.dumps(totals, indent=2) + "\n"
