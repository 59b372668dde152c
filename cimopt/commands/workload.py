"""`cimopt workload show NAME|FILE`, `import FILE`, `list`: networks, ours and people's own."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from cimopt import plugins
from cimopt.errors import CimoptError, InputError, unknown_name
from cimopt.types import Workload
from cimopt.workloads import SOURCES, format_table, load, names, networks_of, to_yaml
from cimopt.workloads.families import FAMILIES
from cimopt.workloads.files import read_any
from cimopt.workloads.importers import FORMATS, PADDINGS, Imported, Options, import_file, parse_bindings
from cimopt.workloads.knobs import BITS, Knob

HEADER = "Imported by `cimopt workload import`"
PLUGIN_GROUP = "cimopt.workloads"
MAX_OPERATIONS = 12


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        return {"list": _list, "families": _families, "show": _show, "import": _import}[options.verb](options)
    except CimoptError as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cimopt workload", description="Networks: layers, MACs, weights, activations."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    show = verbs.add_parser("show", help="print one network's layers and totals")
    show.add_argument("name", help=f"a zoo name ({', '.join(names())}), a workload YAML, or a file `import` can read")
    show.add_argument(
        "--source", default="zoo", choices=SOURCES, help="zoo: right shapes; published: layers as published"
    )
    show.add_argument("--json", action="store_true", help="machine-readable totals")
    bring = verbs.add_parser(
        "import",
        help="turn a file of another tool into a workload YAML",
        description="Reads ONNX models, Timeloop problems (a file or a folder), ZigZag workloads and SCALE-Sim "
        "topologies; writes a workload YAML and prints its totals. Use it by workload.<name>.file=FILE.yaml.",
    )
    bring.add_argument("file", help="the file, or a folder of Timeloop problems")
    bring.add_argument("--out", metavar="FILE.yaml", help="where to write (default: NAME.yaml in this folder)")
    bring.add_argument("--name", help="name of the workload (default: the file's)")
    for verb in (show, bring):
        _add_import_options(verb)
    verbs.add_parser("list", help="names of the zoo and of the published set")
    verbs.add_parser("families", help="families of networks and their parameters, for params and search")
    return parser


def _add_import_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading files of other tools")
    group.add_argument("--format", default="auto", choices=FORMATS, help="default: by suffix and content")
    group.add_argument("--padding", choices=PADDINGS, help="of convolutions; required for SCALE-Sim files")
    group.add_argument(
        "--bind", metavar="NAME=SIZE", action="append", default=[], help="size of an open dimension or symbol"
    )
    group.add_argument(
        "--allow-unsupported", action="store_true", help="ONNX: leave out unsupported operators, with a warning"
    )
    group.add_argument(
        "--depthwise", action="store_true", help="SCALE-Sim: rows with one filter are depthwise convolutions"
    )
    group.add_argument(
        "--dynamic", metavar="LAYER", action="append", default=[], help="both operands of this layer are activations"
    )
    group.add_argument(
        "--weights", metavar="INPUT", action="append", default=[], help="ONNX: this graph input holds weights"
    )


def _options(given: argparse.Namespace) -> Options:
    return Options(
        format=given.format,
        padding=given.padding,
        bind=parse_bindings(given.bind),
        name=getattr(given, "name", None) if given.verb == "import" else None,
        allow_unsupported=given.allow_unsupported,
        depthwise=given.depthwise,
        dynamic=tuple(given.dynamic),
        weights=tuple(given.weights),
    )


def _list(given: argparse.Namespace) -> int:
    for source in SOURCES:
        sys.stdout.write(f"{source}: {', '.join(names(source))}\n")
    sys.stdout.write(f"plug-ins: {', '.join(_announced())}\n")
    return 0


def _families(given: argparse.Namespace) -> int:
    for name, family in FAMILIES.items():
        sys.stdout.write(f"{name}\n")
        for knob, one in family.knobs.items():
            if one.follows is None:
                sys.stdout.write(f"  {knob:16} {one.allowed}{_default(one)}\n")
        followers: dict[str, list[str]] = {}
        for knob, one in family.knobs.items():
            if one.follows is not None:
                followers.setdefault(one.follows, []).append(knob)
        for leader, names_ in followers.items():
            sys.stdout.write(f"  {', '.join(names_)}: as {leader} unless given\n")
    sys.stdout.write(f"any other network\n  {', '.join(BITS)}: its layers' own unless given\n")
    return 0


def _default(knob: Knob) -> str:
    if knob.must_be_given:
        return ", must be given"
    return f", default {knob.default}" if knob.default is not None else ", its layers' own unless given"


def _announced() -> list[str]:
    """Names of networks that plug-ins bring along."""
    return sorted(p.name for p in plugins.installed(PLUGIN_GROUP))


def _show(given: argparse.Namespace) -> int:
    found = _found(given, _options(given))
    if given.json:
        sys.stdout.write(_json(found))
        _say(found, sys.stderr)
    else:
        sys.stdout.write(format_table(found.workload) + "\n")
        _say(found, sys.stdout)
    return 0


def _found(given: argparse.Namespace, options: Options) -> Imported:
    """A network by name (zoo, published, plug-in, configuration choice) or from a file."""
    if given.source != "zoo":
        return Imported(load(given.name, source=given.source), "workload")
    if given.name in _announced():
        return Imported(plugins.load(PLUGIN_GROUP, given.name)(), "workload")
    if given.name not in names() and re.fullmatch(r"\w+", given.name) and not Path(given.name).exists():
        if given.name not in _choices():
            raise unknown_name("workload", given.name, {*names(), *_choices(), *_announced()})
        return _choice(given.name)
    return read_any(given.name, options)


def _choices() -> list[str]:
    """Names that `workload=` takes in a search."""
    from cimopt.conf import __path__ as folders

    return [path.stem for folder in folders for path in Path(folder, "workload").glob("*.yaml")]


def _choice(name: str) -> Imported:
    """The one network of a configuration choice, such as a model of a family, and what it leaves to a search."""
    from cimopt.config.compose import compose

    found = networks_of(compose([f"workload={name}"], "config")["workload"])
    if len(found.entries) > 1:
        raise InputError(f"'{name}' is a set of networks; show one of them: {', '.join(w.name for w in found.first)}")
    searched = tuple(f"left to the search: {p.name} in {', '.join(map(str, p.choices))}" for p in found.parameters)
    return Imported(found.first[0], "workload", notes=searched)


def _import(given: argparse.Namespace) -> int:
    imported = import_file(given.file, _options(given))
    out = Path(given.out) if given.out else Path(f"{_file_stem(imported.workload.name)}.yaml")
    _check_out(out, given)
    comment = "\n".join(
        [f"{HEADER} from {Path(given.file).name} ({imported.format}).", *imported.notes, *imported.warnings]
    )
    try:
        out.write_text(to_yaml(imported.workload, comment), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out {out} cannot be written: {error}") from None
    sys.stdout.write(format_table(imported.workload) + "\n")
    _say(imported, sys.stdout)
    sys.stdout.write(f"wrote {out}\n")
    return 0


def _file_stem(name: str) -> str:
    """A name as part of a file's name."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:100].strip(".") or "workload"


def _check_out(out: Path, given: argparse.Namespace) -> None:
    """Never write over the input; without --out, nor over a file that no import has written."""
    if out.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(f"--out {out} must end in .yaml")
    if out.exists() and out.resolve() == Path(given.file).resolve():
        raise InputError(f"'{out}' is the file to import; choose another name by --out FILE.yaml")
    if not given.out and out.is_file() and not out.read_bytes().startswith(f"# {HEADER}".encode()):
        raise InputError(f"'{out}' exists and was not written by an import; choose another name by --out FILE.yaml")


def _say(found: Imported, stream) -> None:
    """What was left out, decided and doubted, one line each."""
    if found.ignored:
        listed = [f"{i.operation} ({i.count})" for i in found.ignored[:MAX_OPERATIONS]]
        more = f" and {len(found.ignored) - MAX_OPERATIONS} more kinds" if len(found.ignored) > MAX_OPERATIONS else ""
        stream.write(f"ignored, without MACs: {', '.join(listed)}{more}\n")
    for note in found.notes:
        stream.write(f"note: {note}\n")
    for warning in found.warnings:
        stream.write(f"warning: {warning}\n")


def _json(found: Imported) -> str:
    workload: Workload = found.workload
    totals = {
        "name": workload.name, "variant": workload.variant, "macs": workload.macs, "weights": workload.weights,
        "activations": workload.activations, "layers": workload.n_layers,
        "ignored": [i.operation for i in found.ignored], "notes": list(found.notes), "warnings": list(found.warnings),
    }  # fmt: skip
    return json.dumps(totals, indent=2) + "\n"
