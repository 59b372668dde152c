"""`cimopt plugin new NAME`: a complete evaluator distribution to put one's own model into.

It is the template plug-in (`plugins/_template`, tested like every other) under another name.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import cimopt
from cimopt import plugins
from cimopt.errors import CimoptError, InputError

PACKAGE, DISTRIBUTION, EVALUATOR, CLASS = "cimopt_template", "cimopt-template", "peak", "Peak"
FILES = ("pyproject.toml", f"{PACKAGE}/**/*.py", f"{PACKAGE}/**/*.yaml", "tests/*.py")
NAME = re.compile(r"[a-z]([a-z0-9_]*[a-z0-9])?")
README = """# {distribution}

Evaluator `{name}` for cimopt. It still computes what the template does: the time of a network on a chip whose every
cell works in every cycle. Put your model into `{package}/evaluator.py`, then fill in this table.

| | |
|---|---|
| needs | parameters of the space, and metrics of evaluators before it |
| gives | metrics, with units |
| settings | `evaluator.{name}...` |
| source | of every constant |
| version | raise it whenever results change |

```
pip install --no-build-isolation --no-deps -e .
cimopt search evaluator={name} objective=latency objective.area_max_mm2=null
pytest
```

(`area_max_mm2=null` as long as the evaluator gives no area to limit.)
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="cimopt plugin", description="Begin a plug-in of your own.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    new = verbs.add_parser("new", help="write a complete evaluator plug-in, ready to install and test")
    new.add_argument("name", metavar="NAME", help="the evaluator's name: small letters, digits and _")
    new.add_argument("--folder", type=Path, help="where to write (default: ./cimopt-NAME)")
    options = parser.parse_args(arguments)
    try:
        folder = write(options.name, options.folder)
    except CimoptError as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return error.exit_code
    sys.stdout.write(
        f"wrote {folder}: your model goes into {folder / _package(options.name) / 'evaluator.py'}\n"
        f"  pip install --no-build-isolation --no-deps -e {folder}\n"
        f"  cimopt search evaluator={options.name} objective=latency objective.area_max_mm2=null\n"
        f"  pytest {folder}\n"
    )
    return 0


def write(name: str, folder: Path | None = None) -> Path:
    """Write the plug-in; returns its folder. InputError for a name or a folder that cannot be used."""
    _check(name)
    target = folder or Path(_distribution(name))
    if target.exists():
        raise InputError(f"'{target}' exists already; choose another by --folder FOLDER")
    source = _template()
    for pattern in FILES:
        for path in sorted(source.glob(pattern)):
            place = target / _renamed(str(path.relative_to(source)), name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_renamed(path.read_text(), name))
    values = {"name": name, "package": _package(name), "distribution": _distribution(name)}
    (target / "README.md").write_text(README.format(**values))
    return target


def _check(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InputError(f"NAME='{name}' must be small letters, digits and _, beginning with a letter, not ending in _")
    taken = [p.distribution for p in plugins.installed("cimopt.evaluators") if p.name == name]
    if taken:
        raise InputError(f"NAME='{name}': {taken[0]} announces an evaluator of that name already")
    if find_spec(_package(name)) is not None:
        raise InputError(f"NAME='{name}': a package {_package(name)} is installed already")


def _template() -> Path:
    """The template: data of an installed cimopt, or the plug-in itself in a checkout."""
    root = Path(cimopt.__file__).parent
    places = (root / "template", root.parent / "plugins" / "_template")
    return next(place for place in places if (place / "pyproject.toml").is_file())


def _package(name: str) -> str:
    return f"cimopt_{name}"


def _distribution(name: str) -> str:
    return f"cimopt-{name.replace('_', '-')}"


def _renamed(text: str, name: str) -> str:
    """The template's names, as whole words, replaced by the plug-in's."""
    kind = "".join(part.capitalize() for part in name.split("_")) + "Evaluator"  # never a word of Python's
    for old, new in (
        (PACKAGE, _package(name)), (DISTRIBUTION, _distribution(name)), (f"Test{CLASS}", f"Test{kind}"),
        (rf"\b{CLASS}\b", kind), (rf"\b{EVALUATOR}\b", name), (rf"\btest_{EVALUATOR}\.py", f"test_{name}.py"),
        (r"^template = ", f"{name} = "), (r'(name, version = "\w+"), "\d+"', r'\1, "1"'),
    ):  # fmt: skip
        text = re.sub(old, new, text, flags=re.MULTILINE)
    return text
