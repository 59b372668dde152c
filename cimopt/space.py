"""The search space: which designs exist, how many, which are refused, and how to list them.

A design is a row of genes (indices of choices). Dependent parameters (a voltage list per
node) have a gene in 0..n-1 whose meaning follows the parent's gene, so crossover never
leaves the space; where lists differ in length, a gene past its list is refused or clipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt.types import Designs, Parameter, ParameterSet, Value, fingerprint

RULE_KEYS = ("product", "min", "max")
PARAMETER_KEYS = ("choices", "level", "unit", "depends_on", "by_parent")
SPACE_KEYS = ("name", "parameters", "fixed", "fix", "rules")


@dataclass(frozen=True)
class Rule:
    """A limit on a product of numeric parameters: min <= product <= max."""

    name: str
    product: tuple[str, ...]
    min: float = -np.inf
    max: float = np.inf

    @property
    def identity(self) -> dict[str, Any]:
        """What decides which designs it refuses."""
        return vars(self)

    def holds(self, designs: Designs) -> np.ndarray:
        """Whether each design keeps the rule, bool (n,)."""
        value = np.ones(len(designs))
        for parameter in self.product:
            value = value * designs[parameter].astype(float)
        return (value >= self.min) & (value <= self.max)


class AnyRule(Protocol):
    """What refuses designs by their parameters alone; `product` names those it reads."""

    @property
    def name(self) -> str: ...
    @property
    def product(self) -> tuple[str, ...]: ...
    @property
    def identity(self) -> dict[str, Any]: ...
    def holds(self, designs: Designs) -> np.ndarray: ...


@dataclass(frozen=True)
class SearchSpace:
    """Parameters in gene order, fixed ones, and rules over parameters alone."""

    name: str
    parameters: ParameterSet
    rules: tuple[AnyRule, ...] = field(default=())

    def __post_init__(self) -> None:
        for rule in self.rules:
            for name in rule.product:
                if name not in self.parameters.all_names:
                    raise unknown_name(f"parameter in space.rules.{rule.name}", name, self.parameters.all_names)
                if isinstance(rule, Rule) and self._has_words(name):
                    raise InputError(f"space.rules.{rule.name}: {name} has words as choices, a product needs numbers")

    def _has_words(self, name: str) -> bool:
        fixed = self.parameters.fixed
        parameters = [p for p in self.parameters.parameters if p.name == name]
        choices = [c for p in parameters for listed in (p.by_parent or (p.choices,)) for c in listed]
        return any(isinstance(c, str) for c in (choices or [fixed[name]]))

    # ------------------------------------------------------------- description
    @property
    def names(self) -> tuple[str, ...]:
        return self.parameters.names

    @property
    def n_genes(self) -> int:
        return len(self.parameters.parameters)

    @property
    def n_choices(self) -> np.ndarray:
        """Choices per gene, int (n_genes,)."""
        return self.parameters.n_choices

    @cached_property
    def fingerprint(self) -> str:
        """Content hash; a study refuses to resume on another one."""
        return fingerprint([self.parameters.fingerprint, [rule.identity for rule in self.rules]])

    @cached_property
    def size(self) -> int:
        """Number of structurally legal designs (rules not applied)."""
        total = 1
        dependents: dict[int, list[Parameter]] = {}
        for p, parent in zip(self.parameters.parameters, self.parameters.parents, strict=True):
            if parent is not None:
                dependents.setdefault(parent, []).append(p)
        for i, p in enumerate(self.parameters.parameters):
            if self.parameters.parents[i] is not None:
                continue
            per_choice = np.ones(p.n_choices, dtype=object)
            for child in dependents.get(i, ()):
                per_choice = per_choice * child.lengths.astype(object)
            total *= int(per_choice.sum())
        return total

    @cached_property
    def grid_size(self) -> int:
        """Product of choice counts: equals `size` unless dependent lists differ in length."""
        return int(np.prod(self.n_choices, dtype=object))

    # ------------------------------------------------------- genes and values
    def designs(self, genes: np.ndarray) -> Designs:
        return Designs(self.parameters, genes)

    def encode(self, design: Mapping[str, Value]) -> np.ndarray:
        """Genes (n_genes,) of one design given by values; fixed parameters must agree.

        Raises InputError naming the parameter, the value and the allowed choices.
        """
        self._check_keys(design)
        genes = np.zeros(self.n_genes, dtype=np.int64)
        order = sorted(range(self.n_genes), key=lambda i: self.parameters.parents[i] is not None)
        for i in order:
            p, parent = self.parameters.parameters[i], self.parameters.parents[i]
            choices = p.choices if parent is None else p.by_parent[genes[parent]]
            genes[i] = _index(p.name, design[p.name], choices)
        return genes

    def _check_keys(self, design: Mapping[str, Value]) -> None:
        for key in design:
            if key not in self.parameters.all_names:
                raise unknown_name("parameter", key, self.parameters.all_names)
        missing = [name for name in self.names if name not in design]
        if missing:
            raise InputError(f"the design leaves out {', '.join(missing)}")
        for name, value in self.parameters.fixed.items():
            if name in design and not _same(design[name], value):
                raise InputError(f"{name}={design[name]} contradicts the space, where it is fixed to {value}")

    def valid(self, genes: np.ndarray) -> np.ndarray:
        """Legal choices and every rule kept, bool (n,); genes int (n, n_genes) already in range."""
        ok = np.ones(len(genes), dtype=bool)
        for i, parent in enumerate(self.parameters.parents):
            if parent is not None:
                ok &= genes[:, i] < self.parameters.parameters[i].lengths[genes[:, parent]]
        if self.rules:
            designs = self.designs(genes)
            for rule in self.rules:
                ok &= rule.holds(designs)
        return ok

    def repair(self, genes: np.ndarray) -> np.ndarray:
        """Clip dependent genes to their parent's list, (n, n_genes) -> a new array."""
        fixed = genes.copy()
        for i, parent in enumerate(self.parameters.parents):
            if parent is not None:
                last = self.parameters.parameters[i].lengths[fixed[:, parent]] - 1
                fixed[:, i] = np.minimum(fixed[:, i], last)
        return fixed

    # --------------------------------------------------- sampling, enumeration
    def sample(self, n: int, rng: np.random.Generator, max_rounds: int = 1000) -> np.ndarray:
        """n valid designs drawn uniformly (with replacement), int (n, n_genes).

        Raises InputError when the rules refuse practically everything.
        """
        kept: list[np.ndarray] = []
        missing = n
        for _ in range(max_rounds):
            if missing <= 0:
                break
            drawn = rng.integers(0, self.n_choices, size=(max(missing, 64), self.n_genes))
            good = drawn[self.valid(drawn)][:missing]
            kept.append(good)
            missing -= len(good)
        if missing > 0:
            raise InputError(f"space '{self.name}' seems empty: its rules refused every one of many random designs")
        return np.concatenate(kept) if kept else np.zeros((0, self.n_genes), dtype=np.int64)

    def genes_at(self, start: int, stop: int) -> np.ndarray:
        """Grid points start..stop-1 in mixed-radix order (last gene fastest), (m, n_genes); may be invalid."""
        index = np.arange(start, stop, dtype=np.int64)
        genes = np.empty((len(index), self.n_genes), dtype=np.int64)
        for i in range(self.n_genes - 1, -1, -1):
            index, genes[:, i] = np.divmod(index, self.n_choices[i])
        return genes

    def enumerate(self, chunk: int = 1 << 16, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        """Every valid design once, as chunks (<= chunk, n_genes), without holding the space in memory."""
        end = self.grid_size if stop is None else min(stop, self.grid_size)
        for low in range(start, end, chunk):
            genes = self.genes_at(low, min(low + chunk, end))
            yield genes[self.valid(genes)]

    def key(self, genes: np.ndarray) -> np.ndarray:
        """One integer per design, its place in mixed-radix order, (n,); object dtype for huge spaces."""
        wide = self.grid_size > np.iinfo(np.int64).max
        key = np.zeros(len(genes), dtype=object if wide else np.int64)
        for i in range(self.n_genes):
            key = key * int(self.n_choices[i]) + genes[:, i]
        return key


def _same(a: Value, b: Value) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return str(a) == str(b)
    return bool(np.isclose(float(a), float(b), rtol=1e-9, atol=0))


def _index(name: str, value: Value, choices: Sequence[Value]) -> int:
    for k, choice in enumerate(choices):
        if _same(value, choice):
            return k
    raise InputError(f"{name}={value} is not a choice (allowed: {', '.join(map(str, choices))})")


# ------------------------------------------------------------ from plain config
def from_config(
    config: Mapping[str, Any], more: Sequence[Parameter] = (), more_rules: Sequence[AnyRule] = ()
) -> SearchSpace:
    """Build a space from its config section; every wrong key or value is one InputError.

    `more` are parameters that come from elsewhere (of searched networks), with their rules. They lead the gene
    order, so that neighbours in an enumeration share their networks; `fix` and `rules` may name them too.
    """
    _known("key in space", config, SPACE_KEYS)
    name = str(config.get("name") or "space")
    listed = config.get("parameters") or {}
    if not listed:
        raise InputError(f"space '{name}' is empty: space.parameters lists no parameter")
    fixed = dict(config.get("fixed") or {})
    parameters = {p.name: p for p in more}
    for key, section in listed.items():
        if key in parameters:
            raise InputError(f"space.parameters.{key} is also a parameter of a searched network; rename one")
        parameters[key] = _parameter(key, dict(section or {}), listed)
    for key, value in flat(config.get("fix") or {}).items():
        _fix(key, value, parameters, fixed)
    rules = [_rule(key, dict(section or {})) for key, section in (config.get("rules") or {}).items()]
    return SearchSpace(name, ParameterSet(tuple(parameters.values()), fixed), (*rules, *more_rules))


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys joined by points: `resnet: {width: 1}`, as Hydra nests `resnet.width=1`, is `resnet.width: 1`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found


def _known(kind: str, given: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in given:
        if key not in allowed:
            raise unknown_name(kind, key, allowed)


def _choices(name: str, values: Any) -> tuple[Value, ...]:
    if not isinstance(values, list | tuple):
        raise InputError(f"space.parameters.{name}: choices must be a list, got {values!r}")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float | str) or value != value:
            raise InputError(f"space.parameters.{name}: choice {value!r} must be a number or a word")
    return tuple(values)


def _parameter(name: str, section: dict[str, Any], listed: Mapping[str, Any]) -> Parameter:
    _known(f"key in space.parameters.{name}", section, PARAMETER_KEYS)
    common = {k: section[k] for k in ("level", "unit") if section.get(k) is not None}
    parent = section.get("depends_on")
    if parent is None:
        return Parameter(name, _choices(name, section.get("choices") or []), **common)
    if parent not in listed:
        raise unknown_name(f"space.parameters.{name}.depends_on", parent, listed)
    table = {str(k): v for k, v in dict(section.get("by_parent") or {}).items()}
    lists = []
    for choice in _choices(parent, listed[parent].get("choices") or []):
        if str(choice) not in table:
            raise InputError(f"space.parameters.{name}.by_parent has no list for {parent}={choice}")
        lists.append(_choices(name, table[str(choice)]))
    return Parameter(name, depends_on=parent, by_parent=tuple(lists), **common)


def _rule(name: str, section: dict[str, Any]) -> Rule:
    _known(f"key in space.rules.{name}", section, RULE_KEYS)
    limits = {k: float(section[k]) for k in ("min", "max") if section.get(k) is not None}
    return Rule(name, tuple(section.get("product") or ()), **limits)


def _fix(name: str, value: Value, parameters: dict[str, Parameter], fixed: dict[str, Value]) -> None:
    """Pin one parameter: it leaves the genes; its dependents keep the matching list."""
    if name in fixed:
        raise InputError(f"space.fix.{name}: the space already fixes it to {fixed[name]}")
    if name not in parameters:
        raise unknown_name("parameter in space.fix", name, parameters)
    p = parameters.pop(name)
    if p.depends_on:
        fixed[name] = _fix_dependent(p, value, parameters)
        return
    k = _index(f"space.fix.{name}", value, p.choices)
    fixed[name] = p.choices[k]
    for child in [q for q in parameters.values() if q.depends_on == name]:
        parameters[child.name] = Parameter(child.name, child.by_parent[k], child.level, child.unit)


def _fix_dependent(p: Parameter, value: Value, parameters: dict[str, Parameter]) -> Value:
    """Pin a dependent parameter: its parent loses the choices that do not offer the value."""
    parent = parameters[p.depends_on]
    keep = [k for k, choices in enumerate(p.by_parent) if any(_same(value, c) for c in choices)]
    if not keep:
        every = sorted({c for choices in p.by_parent for c in choices})
        raise InputError(f"space.fix.{p.name}={value} is not a choice (allowed: {', '.join(map(str, every))})")
    siblings = [q for q in parameters.values() if q.depends_on == parent.name]
    parameters[parent.name] = Parameter(parent.name, tuple(parent.choices[k] for k in keep), parent.level, parent.unit)
    for q in siblings:
        lists = tuple(q.by_parent[k] for k in keep)
        parameters[q.name] = Parameter(q.name, (), q.level, q.unit, q.depends_on, lists)
    return next(c for c in p.by_parent[keep[0]] if _same(value, c))
