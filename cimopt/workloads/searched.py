"""The workloads of a study: each one network, or a network with parameters that the search chooses.

A searched parameter is called `<workload>.<knob>` in the space, such as `resnet.width`; every design then
has networks of its own, built from its values.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice, product
from typing import Any

import numpy as np

from cimopt import plugins
from cimopt.errors import InputError
from cimopt.types import Designs, Parameter, Value, Workload
from cimopt.workloads.families import Family, as_family, family, of_function
from cimopt.workloads.knobs import meaning_of, resolved

LEVEL = "network"
PLUGIN_GROUP = "cimopt.workloads"
MAX_TRIES = 100_000  # combinations looked at for one that is a network
KEPT = 4096  # built networks


@dataclass(frozen=True)
class NetworkEntry:
    """One workload of a configuration, as plain data.

    Its source is exactly one of `family`, `plugin` (an announced function) and `fixed` (a network as it is).
    `params` are given values, `search` the choices of the knobs that designs decide.
    """

    name: str
    family: str | None = None
    plugin: str | None = None
    fixed: Workload | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    search: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"workload.{self.name}"
        both = [knob for knob in self.search if knob in self.params and self.params[knob] is not None]
        if both:
            raise InputError(f"{where}: {both[0]} stands in params and in search; give one of them")
        checked = {}
        for knob, choices in self.search.items():
            meant = meaning_of(self.kind.knobs, knob, f"{where}.search")
            checked[knob] = tuple(meant.checked(value, f"{where}.search.{knob}") for value in choices)
        object.__setattr__(self, "search", checked)
        # Every other knob must have its value now; combinations are checked as designs come.
        values = self._values({knob: choices[0] for knob, choices in checked.items()})
        if not self.search:
            self.kind.check(values, where)

    @property
    def kind(self) -> Family:
        if self.family is not None:
            return family(self.family)
        return _announced_family(self.plugin) if self.plugin else as_family(self.fixed)

    @property
    def code(self) -> list[str]:
        """Hashes of the code that builds its networks; empty for a network as it is."""
        if self.family is not None:
            modules = (self.family, "builder", "families")
            return [plugins.code_of(f"cimopt.workloads.{name}", alone=True) for name in modules]
        return [plugins.code_of(plugins.load(PLUGIN_GROUP, self.plugin).__module__)] if self.plugin else []

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the search decides, named `<workload>.<knob>`."""
        knobs = self.kind.knobs
        return tuple(
            Parameter(f"{self.name}.{knob}", choices, LEVEL, meaning_of(knobs, knob, self.name).unit)
            for knob, choices in self.search.items()
        )

    def at(self, values: Mapping[str, Value]) -> Workload:
        """The network with these values of the searched knobs."""
        if self.fixed is not None and not self.params and not values:
            return self.fixed
        kind, found = self.kind, self._values(values)
        kind.check(found, f"workload.{self.name}")
        return kind.build(self.name, found)

    def accepts(self, values: Mapping[str, Value]) -> bool:
        """Whether these values of the searched knobs make a network."""
        try:
            self.kind.check(self._values(values), self.name)
        except InputError:
            return False
        return True

    def first(self) -> Workload:
        """The first combination of choices that is a network: it stands for the workload where no design is meant."""
        combinations = (dict(zip(self.search, c, strict=True)) for c in product(*self.search.values()))
        for values in islice(combinations, MAX_TRIES):
            if self.accepts(values):
                return self.at(values)
        raise InputError(f"workload.{self.name}.search: no combination of the choices is a network")

    def _values(self, values: Mapping[str, Value]) -> dict[str, Value]:
        return resolved(self.kind.knobs, {**self.params, **values}, f"workload.{self.name}.params")


@cache
def _announced_family(name: str) -> Family:
    """A plug-in's family; looking for entry points again for every design would take longer than evaluating it."""
    return of_function(plugins.load(PLUGIN_GROUP, name))


@dataclass(frozen=True)
class NetworkRule:
    """Refuses designs whose values make no network; a rule of the space like any other."""

    entry: NetworkEntry

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def product(self) -> tuple[str, ...]:
        """The parameters it reads."""
        return tuple(p.name for p in self.entry.parameters)

    @property
    def identity(self) -> dict[str, Any]:
        return {"network": self.entry.name, "family": self.entry.family, "params": dict(self.entry.params)}

    def holds(self, designs: Designs) -> np.ndarray:
        """Whether each design's values make a network, bool (n,)."""
        known: dict[tuple, bool] = {}
        columns = [designs[name].tolist() for name in self.product]
        kept = np.ones(len(designs), dtype=bool)
        for i, row in enumerate(zip(*columns, strict=True)):
            if row not in known:
                known[row] = self.entry.accepts(dict(zip(self.entry.search, row, strict=True)))
            kept[i] = known[row]
        return kept


@dataclass(frozen=True)
class Networks:
    """All workloads of a study, in order."""

    entries: tuple[NetworkEntry, ...]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Searched parameters of all workloads, in order."""
        return tuple(p for entry in self.entries for p in entry.parameters)

    @cached_property
    def rules(self) -> tuple[NetworkRule, ...]:
        """One per workload whose family does not take every combination."""
        return tuple(NetworkRule(e) for e in self.entries if e.search and not e.kind.takes_all)

    @cached_property
    def first(self) -> tuple[Workload, ...]:
        """Every workload; one with searched parameters at its first combination."""
        return tuple(entry.first() for entry in self.entries)

    @property
    def identity(self) -> dict[str, Any]:
        """What decides results: content of fixed networks; parameters, choices and code of others."""
        return {
            e.name: _identity(e, w) if e.search else w.fingerprint
            for e, w in zip(self.entries, self.first, strict=True)
        }

    def at(self, values: Mapping[str, Value]) -> tuple[Workload, ...]:
        """The networks of one design, from the values of `parameters` by name."""
        return tuple(self._one(k, values) for k in range(len(self.entries)))

    def _one(self, k: int, values: Mapping[str, Value]) -> Workload:
        """One network; those built last are kept, as a design is checked, evaluated and reported."""
        entry = self.entries[k]
        if not entry.search:
            return self.first[k]
        mine = {knob: values[f"{entry.name}.{knob}"] for knob in entry.search}
        key = (k, *mine.values())
        found = self._built.pop(key, None)
        self._built[key] = found = entry.at(mine) if found is None else found
        if len(self._built) > KEPT:
            self._built.popitem(last=False)
        return found

    @cached_property
    def _built(self) -> OrderedDict[tuple, Workload]:
        return OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        """Workers build their own."""
        return {"entries": self.entries}


def _identity(entry: NetworkEntry, first: Workload) -> dict[str, Any]:
    return {
        "first": first.fingerprint,
        "family": entry.family or entry.plugin,
        "params": dict(entry.params),
        "search": {knob: list(choices) for knob, choices in entry.search.items()},
        "code": entry.code,
    }
