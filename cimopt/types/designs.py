"""Parameters and designs: what a hardware knob may be, and designs as gene indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt.types.common import Value, fingerprint

LEVELS = ("device", "circuit", "architecture", "system", "network")


def _column(values: Sequence[Value]) -> np.ndarray:
    """An array of choices: int or float where all are numbers, else str."""
    return np.array(values)


@dataclass(frozen=True)
class Parameter:
    """One hardware knob and its allowed values (choices); a gene is the index of a choice.

    A dependent parameter (`depends_on`) has one list of choices per choice of its parent,
    in the parent's order: `by_parent[parent_gene][gene]`. Lists may differ in length.
    """

    name: str
    choices: tuple[Value, ...] = ()
    level: str = "architecture"
    unit: str = ""
    depends_on: str | None = None
    by_parent: tuple[tuple[Value, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise unknown_name(f"level of parameter '{self.name}'", self.level, LEVELS)
        lists = self.by_parent if self.depends_on else (self.choices,)
        if not lists:
            raise InputError(f"parameter '{self.name}' depends on '{self.depends_on}' but lists no choices for it")
        for choices in lists:
            if not choices:
                raise InputError(f"parameter '{self.name}' has no choices: the space would be empty")
            if len(set(choices)) != len(choices):
                raise InputError(f"parameter '{self.name}' repeats a choice: {list(choices)}")

    @property
    def n_choices(self) -> int:
        """Number of genes: the length of the longest list."""
        return max(len(c) for c in self.by_parent) if self.depends_on else len(self.choices)

    @cached_property
    def table(self) -> np.ndarray:
        """Choices as an array: (n_choices,), or (n_parent, n_choices) padded with the last choice."""
        if not self.depends_on:
            return _column(self.choices)
        width = self.n_choices
        return np.array([list(c) + [c[-1]] * (width - len(c)) for c in self.by_parent])

    @cached_property
    def lengths(self) -> np.ndarray:
        """How many choices are legal: (1,), or one number per parent choice (n_parent,)."""
        return np.array([len(c) for c in (self.by_parent or (self.choices,))])


@dataclass(frozen=True)
class ParameterSet:
    """Variable parameters in gene order, plus fixed ones. Knows how genes become values."""

    parameters: tuple[Parameter, ...]
    fixed: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [p.name for p in self.parameters] + list(self.fixed)
        if len(set(names)) != len(names):
            raise InputError(f"a parameter is named twice: {sorted(names)}")
        for p in self.parameters:
            self._check_parent(p)

    def _check_parent(self, p: Parameter) -> None:
        if p.depends_on is None:
            return
        parent = next((q for q in self.parameters if q.name == p.depends_on), None)
        if parent is None:
            raise unknown_name(f"parent of parameter '{p.name}'", p.depends_on, self.names)
        if parent.depends_on is not None:
            raise InputError(f"parameter '{p.name}' depends on '{parent.name}', which itself depends on another")
        if len(p.by_parent) != parent.n_choices:
            raise InputError(
                f"parameter '{p.name}' lists {len(p.by_parent)} sets of choices for the "
                f"{parent.n_choices} choices of '{parent.name}'"
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    @property
    def all_names(self) -> tuple[str, ...]:
        return self.names + tuple(self.fixed)

    @cached_property
    def n_choices(self) -> np.ndarray:
        """Genes per parameter, int (n_genes,)."""
        return np.array([p.n_choices for p in self.parameters], dtype=np.int64)

    @cached_property
    def parents(self) -> tuple[int | None, ...]:
        """For each gene, the position of the gene it depends on."""
        at = {name: i for i, name in enumerate(self.names)}
        return tuple(at[p.depends_on] if p.depends_on else None for p in self.parameters)

    @cached_property
    def fingerprint(self) -> str:
        listed = [(p.name, p.choices, p.depends_on, p.by_parent) for p in self.parameters]
        return fingerprint([listed, dict(self.fixed)])

    def column(self, name: str, genes: np.ndarray) -> np.ndarray:
        """Decoded values of one parameter, (n,), for genes (n, n_genes)."""
        if name in self.fixed:
            return np.broadcast_to(np.asarray(self.fixed[name]), (len(genes),))
        if name not in self.names:
            raise unknown_name("parameter", name, self.all_names)
        i = self.names.index(name)
        p, parent = self.parameters[i], self.parents[i]
        if parent is None:
            return p.table[genes[:, i]]
        return p.table[genes[:, parent], genes[:, i]]


@dataclass(frozen=True)
class Designs:
    """Designs as gene indices, int (n, n_genes); `designs["xbar_rows"]` decodes a column.

    In a chain, metrics of earlier evaluators are read the same way: `designs["area_mm2"]`.
    """

    parameters: ParameterSet
    genes: np.ndarray
    upstream: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        genes = np.asarray(self.genes)
        if genes.ndim != 2 or genes.shape[1] != len(self.parameters.parameters):
            raise InputError(f"genes have shape {genes.shape}, expected (n, {len(self.parameters.parameters)})")
        if genes.dtype.kind not in "iu":
            raise InputError(f"genes must be integers, got {genes.dtype}")
        if len(genes) and ((genes < 0).any() or (genes >= self.parameters.n_choices).any()):
            raise InputError("a gene is outside its parameter's choices")
        object.__setattr__(self, "genes", genes)

    def __len__(self) -> int:
        return len(self.genes)

    def __getitem__(self, name: str) -> np.ndarray:
        """A parameter's values (n,) or an earlier metric, (n,) or (n, w)."""
        if name in self.upstream:
            return self.upstream[name]
        return self.parameters.column(name, self.genes)

    def take(self, rows: np.ndarray | slice) -> Designs:
        """The chosen rows, with their upstream metrics."""
        upstream = {k: v[rows] for k, v in self.upstream.items()}
        return Designs(self.parameters, self.genes[rows], upstream)

    def with_upstream(self, values: Mapping[str, np.ndarray]) -> Designs:
        return Designs(self.parameters, self.genes, dict(self.upstream) | dict(values))

    def row(self, i: int) -> dict[str, Value]:
        """One design as plain Python values, fixed parameters included."""
        one = self.genes[i : i + 1]
        return {name: self.parameters.column(name, one)[0].item() for name in self.parameters.all_names}

    def rows(self) -> Iterator[dict[str, Value]]:
        return (self.row(i) for i in range(len(self)))
