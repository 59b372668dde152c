"""What a person can ask of an import, and what an import gives back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cimopt.errors import InputError, unknown_name
from cimopt.types import Workload

FORMATS = ("auto", "onnx", "timeloop", "zigzag", "scalesim", "torch_fx")
PADDINGS = ("same", "valid", "explicit")
# No network has a larger side; a file that says so is damaged, and products of such numbers are no use.
MAX_SIZE = 2**31


@dataclass(frozen=True)
class Options:
    """Choices of one import; those that a format has no use for are refused by `import_file`."""

    format: str = "auto"
    padding: str | None = None
    bind: Mapping[str, int] = field(default_factory=dict)
    name: str | None = None
    allow_unsupported: bool = False
    depthwise: bool = False  # SCALE-Sim: rows with one filter are depthwise layers
    dynamic: tuple[str, ...] = ()  # layers whose both operands are activations
    weights: tuple[str, ...] = ()  # ONNX: inputs of the graph that are stationary weights

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise unknown_name("import format", self.format, FORMATS)
        if self.padding is not None and self.padding not in PADDINGS:
            raise unknown_name("padding", self.padding, PADDINGS)
        if self.name is not None and not self.name:
            raise InputError("the name of an imported workload must not be empty")


@dataclass(frozen=True)
class Ignored:
    """Operations without multiply-accumulates that an import leaves out, by kind."""

    operation: str
    count: int


@dataclass(frozen=True)
class Imported:
    """A workload, what was left out of it, and what a person should know about it.

    `notes` state decisions (a batch of 1 was assumed), `warnings` doubts (a layer looks wrong).
    """

    workload: Workload
    format: str
    ignored: tuple[Ignored, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def counted(operations: Iterable[str]) -> tuple[Ignored, ...]:
    """`Ignored` entries of a list of operation names, in order of first appearance."""
    counts: dict[str, int] = {}
    for operation in operations:
        counts[operation] = counts.get(operation, 0) + 1
    return tuple(Ignored(operation, count) for operation, count in counts.items())


def parse_bindings(texts: Iterable[str]) -> dict[str, int]:
    """`["N=1", "seq=128"]` as {"N": 1, "seq": 128}; each size must be a whole number >= 1."""
    bound: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not re.fullmatch(r"[0-9]{1,10}", size) or not 1 <= int(size) < MAX_SIZE:
            raise InputError(f"--bind {text}: give NAME=SIZE with a whole number >= 1, such as --bind N=1")
        if bound.setdefault(name, int(size)) != int(size):
            raise InputError(f"--bind {name} is given twice with different sizes")
    return bound


def whole(value: object, spot: str) -> int:
    """A size >= 1 read from a file; `spot` says where it stands."""
    if type(value) is not int or not 1 <= value < MAX_SIZE:
        raise InputError(f"{spot} is {short(value)}; a whole number >= 1 is needed")
    return value


def short(value: object, length: int = 80) -> str:
    """`repr`, cut where a hostile file would make it huge."""
    if isinstance(value, (list, dict, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and not -(10**30) < value < 10**30:
        return "a number of more than 30 digits"
    text = repr(value[: length + 1] if isinstance(value, str) else value)
    return text if len(text) <= length else text[: length - 3] + "..."


def label(value: object) -> str:
    """A misspelt name as `unknown_name` quotes it."""
    return value[:80] if isinstance(value, str) else short(value)


class Names:
    """Gives each layer a name of its own: a repeated one gets a number."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._next: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        name = wanted
        while name in self._seen:
            self._next[wanted] = self._next.get(wanted, 1) + 1
            name = f"{wanted}#{self._next[wanted]}"
        self._seen.add(name)
        return name
