"""Families of networks: parameters (knobs) that decide the layers.

In a configuration `workload.mine: {family: resnet, params: {width: 0.5}}` is one network, and
`search: {width: [0.5, 1.0], depth_3: [1, 2, 3]}` leaves the choice of those parameters to the search.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from cimopt.errors import InputError, unknown_name
from cimopt.types import Value, Workload
from cimopt.workloads import llama, mobilenet_v2, resnet, vit
from cimopt.workloads.knobs import BITS, MAX_SIZE, Knob


def _nothing(values: Mapping[str, Value], where: str) -> None:
    """Every combination of allowed values is a network."""


@dataclass(frozen=True)
class Family:
    """Networks that differ by their knobs.

    `build(name, values)` takes every knob's value. `check(values, where)` refuses combinations that are
    no network; it is cheap, since samplers ask it for every design they think of.
    """

    knobs: Mapping[str, Knob]
    build: Callable[[str, Mapping[str, Value]], Workload]
    check: Callable[[Mapping[str, Value], str], None] = _nothing

    @property
    def takes_all(self) -> bool:
        """Whether every combination of allowed values is a network."""
        return self.check is _nothing


FAMILIES: dict[str, Family] = {
    "llama": Family(llama.KNOBS | BITS, lambda name, values: with_bits(llama.build(name, values), values), llama.check),
    "mobilenet_v2": Family(mobilenet_v2.KNOBS, mobilenet_v2.build),
    "resnet": Family(resnet.KNOBS, resnet.build),
    "vit": Family(vit.KNOBS, vit.build, vit.check),
}


def family(name: object) -> Family:
    """A family by name; InputError with the nearest right one."""
    if name not in FAMILIES:
        raise unknown_name("workload family", name, FAMILIES)
    return FAMILIES[name]


def as_family(workload: Workload) -> Family:
    """A network as it is, with nothing but its bits to choose."""
    return Family(BITS, lambda name, values: with_bits(replace(workload, name=name), values))


@functools.cache
def of_function(make: Callable[..., Workload]) -> Family:
    """A plug-in's function: its parameters are the knobs, each of the kind of its default.

    A whole number (>= 1, or its default where that is lower), a real number or a word; other kinds keep their default.
    Bits are added as for any network, unless the function takes them itself. A ValueError or TypeError of the
    function means that these values make no network.
    """
    knobs = {p.name: knob for p in inspect.signature(make).parameters.values() if (knob := _knob_of(p)) is not None}
    added = {key: knob for key, knob in BITS.items() if key not in knobs}

    @functools.lru_cache(maxsize=4096)
    def made(given: tuple[tuple[str, Value], ...]) -> Workload | str:
        try:
            return make(**dict(given))
        except (ValueError, TypeError, InputError) as error:
            return " ".join(str(error).split()) or type(error).__name__

    def network(values: Mapping[str, Value], where: str) -> Workload:
        found = made(tuple((key, value) for key, value in values.items() if key in knobs))
        if isinstance(found, str):
            raise InputError(f"{where}: no network comes of these parameters: {found}")
        return found

    def build(name: str, values: Mapping[str, Value]) -> Workload:
        return with_bits(replace(network(values, f"workload.{name}"), name=name), values, added)

    def check(values: Mapping[str, Value], where: str) -> None:
        network(values, where)

    return Family(knobs | added, build, check)


def _knob_of(parameter: inspect.Parameter) -> Knob | None:
    default = parameter.default
    if default is inspect.Parameter.empty:
        raise InputError(f"a plug-in's network function needs a default for '{parameter.name}'")
    if isinstance(default, str):
        return Knob(default, text=True)
    if isinstance(default, bool) or not isinstance(default, int | float):
        return None
    return Knob(default, real=True, low=-MAX_SIZE) if isinstance(default, float) else Knob(default, low=min(1, default))


def with_bits(workload: Workload, values: Mapping[str, Value], keys: Iterable[str] = BITS) -> Workload:
    """The same layers with other bits, where `values` hold some of `keys`; `values` become its `params`.

    A product of two activations holds no weights: its second operand gets the bits of activations.
    """
    bits = {key: values[key] for key in keys if key in values}
    activations = {key: bits["activation_bits"] for key in BITS if "activation_bits" in bits}
    layers = workload.layers
    if bits:
        layers = tuple(replace(layer, **(activations if layer.dynamic else bits)) for layer in layers)
    return replace(workload, layers=layers, params=dict(values))
