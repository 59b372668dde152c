"""Parameters of networks: what each may be, its default, and how given values are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cimopt.errors import InputError, unknown_name
from cimopt.types import MAX_BITS, Value

MAX_SIZE = 2**31 - 1


@dataclass(frozen=True)
class Knob:
    """One parameter of a network.

    A number in `low`..`high` (a whole one unless `real`, an odd one if `odd`), one of `words`, or any `text`. Not given,
    it is `default`, or the value of the knob it `follows`; with neither it must be given, unless `optional`
    (None then keeps what the network has).
    """

    default: Value | None = None
    low: float = 1
    high: float = MAX_SIZE
    real: bool = False
    odd: bool = False
    words: tuple[str, ...] = ()
    text: bool = False
    follows: str | None = None
    optional: bool = False
    unit: str = ""

    @property
    def must_be_given(self) -> bool:
        return self.default is None and self.follows is None and not self.optional

    def checked(self, value: object, where: str) -> Value:
        """The value, whole numbers as int; InputError names `where`, the value and what is allowed."""
        if self.words:
            if value not in self.words:
                raise unknown_name(where, value, self.words)
            return str(value)
        if self.text:
            if not isinstance(value, str):
                raise InputError(f"{where}={value!r} must be a word")
            return str(value)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and self.low <= value <= self.high:
            if self.real:
                return float(value)
            if float(value).is_integer() and (not self.odd or int(value) % 2):
                return int(value)
        raise InputError(f"{where}={value!r} must be {self.allowed}")

    @property
    def allowed(self) -> str:
        """What a value may be, for people."""
        if self.words:
            return " | ".join(self.words)
        if self.text:
            return "a word"
        kind = "a number" if self.real else "an odd whole number" if self.odd else "a whole number"
        return f"{kind} >= {self.low:g}" if self.high == MAX_SIZE else f"{kind} in {self.low:g}..{self.high:g}"


# Every network can be given other widths of its numbers; None keeps its layers' own.
BITS: Mapping[str, Knob] = {
    name: Knob(low=1, high=MAX_BITS, optional=True, unit="bit") for name in ("weight_bits", "activation_bits")
}


def staged(name: str, stages: int) -> dict[str, Knob]:
    """`name_1`, `name_2`, ...: one value per stage, each following `name` unless given."""
    return {f"{name}_{i}": Knob(follows=name) for i in range(1, stages + 1)}


def resolved(knobs: Mapping[str, Knob], given: Mapping[str, object], where: str) -> dict[str, Value]:
    """Every knob's value; unknown names, wrong values and missing ones are refused, naming `where`.name."""
    for name in given:
        if name not in knobs:
            raise unknown_name(f"parameter in {where}:", name, knobs)
    missing = [name for name, knob in knobs.items() if knob.must_be_given and given.get(name) is None]
    if missing:
        raise InputError(f"{where}: missing {', '.join(missing)}")
    values: dict[str, Value] = {}
    for name, knob in knobs.items():
        value = given.get(name)
        if value is not None:
            values[name] = meaning_of(knobs, name, where).checked(value, f"{where}.{name}")
        elif knob.follows is not None:
            values[name] = values[knob.follows]
        elif knob.default is not None:
            values[name] = knob.default
    return values


def meaning_of(knobs: Mapping[str, Knob], name: str, where: str) -> Knob:
    """The knob that says what a value may be: a follower allows what it follows allows."""
    if name not in knobs:
        raise unknown_name(f"parameter in {where}:", name, knobs)
    knob = knobs[name]
    return knob if knob.follows is None else meaning_of(knobs, knob.follows, where)
