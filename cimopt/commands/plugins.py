"""`cimopt plugins`: what is installed and announced, without importing it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from cimopt import plugins

TITLES = {
    "cimopt.evaluators": "evaluator=",
    "cimopt.samplers": "sampler kinds",
    "cimopt.workloads": "workload=",
    "cimopt.commands": "commands",
    "cimopt.confs": "config folders",
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="cimopt plugins",
        description="List evaluators, samplers, workloads and config folders that installed distributions announce.",
        epilog="Begin your own by `cimopt plugin new NAME`; see docs/plugins.md.",
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument(
        "--prepare",
        action="store_true",
        help="run every evaluator once on a few designs, so that compiled kernels are cached before the first search",
    )
    options = parser.parse_args(arguments)
    if options.prepare:
        from cimopt.config.prepare import prepare

        for line in prepare():
            sys.stdout.write(f"{line}\n")
        return 0
    found = {group: plugins.installed(group) for group in plugins.GROUPS}
    if options.json:
        listed = {g: [vars(p) for p in entries] for g, entries in found.items()}
        sys.stdout.write(json.dumps(listed, indent=2) + "\n")
        return 0
    for group, entries in found.items():
        sys.stdout.write(f"{TITLES[group]}\n")
        for p in entries:
            sys.stdout.write(f"  {p.name:<20} {p.distribution} {p.version:<10} {p.target}\n")
        if not entries:
            sys.stdout.write("  (none)\n")
    return 0
