"""`cimopt report RUN...`: the tables and the page of finished runs, again."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cimopt.errors import CimoptError, InputError
from cimopt.report.html import write_report
from cimopt.report.result import ERROR, RESULT
from cimopt.report.terminal import show_result, show_runs

PLOTS = ("convergence.png", "front.png", "designs.png")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="cimopt report",
        description="Show a run's best designs again and rewrite its report.html; of several runs, or of a sweep's "
        "folder, one row per run, the best first.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run folder, or a folder of run folders")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, keyed by run folder")
    parser.add_argument(
        "--top", type=_positive, default=5, metavar="N", help="how many of the best designs (default: 5)"
    )
    options = parser.parse_args(arguments)
    try:
        found = {str(folder): one for name in options.runs for folder, one in _results(Path(name))}
    except CimoptError as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return error.exit_code
    if options.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    elif len(found) == 1:
        ((folder, result),) = found.items()
        _one(Path(folder), result, options.top)
    else:
        show_runs(_labelled(found))
    return 0


def _results(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Every result in a run folder or in the run folders it holds; a job that failed counts with its reason."""
    if (found := _read(folder)) is not None:
        return [(folder, found)]
    inside = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    results = [(path, one) for path in inside if (one := _read(path)) is not None]
    if not results:
        raise InputError(f"'{folder}' is no run folder and holds none ({RESULT} is missing)")
    return results


def _read(folder: Path) -> dict[str, Any] | None:
    for name in (RESULT, ERROR):
        if (folder / name).is_file():
            try:
                found = json.loads((folder / name).read_text())
            except ValueError as error:
                raise InputError(f"{folder / name} cannot be read: {error}") from None
            if not isinstance(found, dict) or "status" not in found:
                raise InputError(f"{folder / name} was not written by cimopt: it has no status")
            return found
    return None


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' must be a whole number >= 1")
    return int(text)


def _one(folder: Path, result: dict[str, Any], top: int) -> None:
    if "top" not in result:
        sys.stdout.write(f"{folder}: {result['status']}: {result.get('reason') or 'no search: nothing to list'}\n")
        return
    write_report(
        folder / "report.html", result, [folder / p for p in PLOTS if (folder / p).exists()], result.get("command", "")
    )
    show_result(result, folder, top)


def _labelled(found: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Runs called by the overrides that not all of them share; by their folder where that says nothing."""
    given = {name: _overrides(one) for name, one in found.items()}
    shared = set.intersection(*map(set, given.values()))
    return [(" ".join(o for o in given[name] if o not in shared) or name, one) for name, one in found.items()]


def _overrides(result: dict[str, Any]) -> list[str]:
    """What was typed, without the run's own folder."""
    return [word for word in shlex.split(result.get("command", ""))[2:] if not word.startswith("hydra.")]
