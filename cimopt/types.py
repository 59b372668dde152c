"""The words every room shares: parameters, designs, layers, workloads, metrics, outcomes.

Nothing here computes hardware: these are frozen records that cannot be built in a
wrong state. Arrays are NumPy; `n` is the number of designs, `w` of workloads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from cimopt.errors import InputError, unknown_name

LEVELS = ("device", "circuit", "architecture", "system", "network")
LAYER_KINDS = ("conv", "linear", "matmul")
MAX_BITS_PER_CELL = 8
DEFAULT_BITS, MAX_BITS = 8, 16  # of one weight or activation
Value = float | int | str
Detail = Literal["totals", "components", "layers"]
DETAILS: tuple[str, ...] = ("totals", "components", "layers")


def fingerprint(content: object) -> str:
    """A short, stable content hash (sha256 of canonical JSON, 16 hex digits)."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _column(values: Sequence[Value]) -> np.ndarray:
    """An array of choices: int or float where all are numbers, else str."""
    return np.array(values)


# ---------------------------------------------------------------- parameters
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


# ----------------------------------------------------------------- workloads
@dataclass(frozen=True)
class Layer:
    """One conv, linear or matrix product with its shape; channels are totals over groups.

    `mean_input` (0..1, of full scale) and `mean_weight_slice` (0..1, for 1..8 bits per cell,
    offset-encoded, of the slice maximum) are activation and weight statistics; None = unknown.
    `dynamic` marks products of two activations: nothing is stationary. `weight_bits` (of the second
    operand) and `activation_bits` (of inputs and outputs) are bits per value.
    """

    name: str
    kind: str
    in_channels: int
    out_channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, left, bottom, right
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    out_map: tuple[int, int] = (1, 1)
    batch: int = 1
    repeats: int = 1
    dynamic: bool = False
    mean_input: float | None = None
    mean_weight_slice: tuple[float, ...] | None = None
    weight_bits: int = DEFAULT_BITS
    activation_bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        if self.kind not in LAYER_KINDS:
            raise unknown_name(f"kind of layer '{self.name}'", self.kind, LAYER_KINDS)
        self._check_sizes()
        for key in ("in_channels", "out_channels"):
            if getattr(self, key) % self.groups:
                raise InputError(
                    f"layer '{self.name}': {key}={getattr(self, key)} is no multiple of groups={self.groups}"
                )
        if self.mean_input is not None and not 0 <= self.mean_input <= 1:
            raise InputError(f"layer '{self.name}': mean_input={self.mean_input} is outside 0..1")
        slices = self.mean_weight_slice
        if slices is not None and (len(slices) != MAX_BITS_PER_CELL or not all(0 <= s <= 1 for s in slices)):
            raise InputError(
                f"layer '{self.name}': mean_weight_slice needs {MAX_BITS_PER_CELL} values in 0..1, got {slices}"
            )

    def _check_sizes(self) -> None:
        sizes = (self.in_channels, self.out_channels, self.groups, self.batch, self.repeats)
        bits = (self.weight_bits, self.activation_bits)
        try:
            sides = (*self.kernel, *self.stride, *self.dilation, *self.out_map)
            numbers = (*sizes, *bits, *sides, *self.padding)
            lengths = (len(self.kernel), len(self.stride), len(self.dilation), len(self.out_map), len(self.padding))
        except TypeError:
            return self._name_wrong_size()
        right = {*map(type, numbers)} == {int} and lengths == (2, 2, 2, 2, 4)
        if not right or min(*sizes, *bits, *sides) < 1 or min(self.padding) < 0 or max(bits) > MAX_BITS:
            self._name_wrong_size()

    def _name_wrong_size(self) -> None:
        """The first wrong one in one sentence."""
        for key, length, low in (
            ("in_channels", 0, 1), ("out_channels", 0, 1), ("kernel", 2, 1), ("stride", 2, 1), ("padding", 4, 0),
            ("dilation", 2, 1), ("groups", 0, 1), ("out_map", 2, 1), ("batch", 0, 1), ("repeats", 0, 1),
        ):  # fmt: skip
            value = getattr(self, key)
            parts = value if length else (value,)
            whole = isinstance(parts, tuple) and all(type(v) is int and v >= low for v in parts)
            if not whole or (length and len(parts) != length):
                wanted = f"{length} whole numbers" if length else "a whole number"
                raise InputError(f"layer '{self.name}': {key}={value!r} must be {wanted} >= {low}")
        for key in ("weight_bits", "activation_bits"):
            value = getattr(self, key)
            if type(value) is not int or not 1 <= value <= MAX_BITS:
                raise InputError(f"layer '{self.name}': {key}={value!r} must be a whole number in 1..{MAX_BITS}")

    @property
    def macs(self) -> int:
        """Multiply-accumulates over all repeats and the batch, bias excluded."""
        return self.weights * self.out_map[0] * self.out_map[1] * self.batch

    @property
    def weights(self) -> int:
        """Weights (or, for `dynamic`, second-operand values) over all repeats, bias excluded."""
        per_group = (self.in_channels // self.groups) * (self.out_channels // self.groups)
        return per_group * self.groups * self.kernel[0] * self.kernel[1] * self.repeats

    @property
    def activations(self) -> int:
        """Output values over all repeats."""
        return self.out_channels * self.out_map[0] * self.out_map[1] * self.batch * self.repeats


@dataclass(frozen=True)
class Workload:
    """One network: ordered layers with repeat counts. `params` are the family's, for a network of a family."""

    name: str
    layers: tuple[Layer, ...]
    variant: str = ""
    source: str = ""
    input_shape: tuple[int, ...] | None = None
    params: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError(f"workload '{self.name}' has no layers")

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    @property
    def weights(self) -> int:
        return sum(layer.weights for layer in self.layers if not layer.dynamic)

    @property
    def activations(self) -> int:
        return sum(layer.activations for layer in self.layers)

    @property
    def n_layers(self) -> int:
        return sum(layer.repeats for layer in self.layers)

    @cached_property
    def fingerprint(self) -> str:
        content = [self.name, [vars(layer) for layer in self.layers]]
        return fingerprint([*content, dict(self.params)] if self.params else content)


# ------------------------------------------------------------------- metrics
@dataclass(frozen=True)
class Limit:
    """What a violation was computed from, for reports: value and limit, each (n,), in `unit`."""

    value: np.ndarray
    limit: np.ndarray
    unit: str

    def take(self, rows: np.ndarray | slice) -> Limit:
        return Limit(self.value[rows], np.broadcast_to(self.limit, self.value.shape)[rows], self.unit)


@dataclass(frozen=True)
class LayerTable:
    """Per-layer values of one workload: `values[metric]` is (n, n_layers)."""

    names: tuple[str, ...]
    values: Mapping[str, np.ndarray]

    def take(self, rows: np.ndarray | slice) -> LayerTable:
        return LayerTable(self.names, {k: v[rows] for k, v in self.values.items()})


@dataclass(frozen=True)
class Outcome:
    """What one design got: ok, infeasible (with relative amounts) or error (with a reason)."""

    state: Literal["ok", "infeasible", "error"]
    reason: str = ""
    amounts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Metrics:
    """Results of n designs on w workloads.

    `values[name]` is (n,) per design or (n, w) per workload, NaN exactly in the rows with a
    reason. `reason` indexes `reasons`, whose entry 0 is "ok". `violations[name]` is (n,),
    relative (value/limit - 1), > 0 violated; it is filled even where there are no metrics.
    """

    values: Mapping[str, np.ndarray]
    workloads: tuple[str, ...]
    reason: np.ndarray | None = None
    reasons: tuple[str, ...] = ("ok",)
    violations: Mapping[str, np.ndarray] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    layers: Mapping[str, LayerTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reason is None:
            n = len(next(iter(self.values.values()), ()))
            object.__setattr__(self, "reason", np.zeros(n, dtype=np.int16))
        if not self.reasons or self.reasons[0] != "ok":
            raise ValueError("reasons[0] must be 'ok'")

    def __len__(self) -> int:
        return len(self.reason)

    @property
    def ok(self) -> np.ndarray:
        """Rows with metrics, bool (n,)."""
        return self.reason == 0

    @property
    def total_violation(self) -> np.ndarray:
        """Sum of positive relative amounts, (n,)."""
        total = np.zeros(len(self))
        for amount in self.violations.values():
            total += np.maximum(amount, 0.0)
        return total

    def outcome(self, i: int) -> Outcome:
        amounts = {k: float(v[i]) for k, v in self.violations.items() if v[i] > 0}
        reason = self.reasons[self.reason[i]] if self.reason[i] else ""
        if amounts:
            return Outcome("infeasible", reason, amounts)
        return Outcome("error", reason) if reason else Outcome("ok")

    def take(self, rows: np.ndarray | slice) -> Metrics:
        return Metrics(
            values={k: v[rows] for k, v in self.values.items()},
            workloads=self.workloads,
            reason=self.reason[rows],
            reasons=self.reasons,
            violations={k: v[rows] for k, v in self.violations.items()},
            limits={k: v.take(rows) for k, v in self.limits.items()},
            layers={k: v.take(rows) for k, v in self.layers.items()},
        )

    @staticmethod
    def failed(reasons: Sequence[str], workloads: tuple[str, ...]) -> Metrics:
        """Rows that only have a reason, one per entry of `reasons`."""
        known = tuple(dict.fromkeys(reasons))
        codes = np.array([1 + known.index(r) for r in reasons], dtype=np.int16)
        return Metrics(values={}, workloads=workloads, reason=codes, reasons=("ok", *known))

    @staticmethod
    def concat(parts: Sequence[Metrics]) -> Metrics:
        """Stack rows. A value missing in one part is NaN there, a missing violation is 0."""
        if len(parts) == 1:
            return parts[0]
        reasons = tuple(dict.fromkeys(r for part in parts for r in part.reasons))
        codes = [np.array([reasons.index(r) for r in part.reasons], dtype=np.int16)[part.reason] for part in parts]
        limits = {
            name: Limit(
                _stack([(len(p), p.limits[name].value if name in p.limits else None) for p in parts], np.nan),
                _stack(
                    [(len(p), p.limits[name].take(slice(None)).limit if name in p.limits else None) for p in parts],
                    np.nan,
                ),
                next(p.limits[name].unit for p in parts if name in p.limits),
            )
            for name in _keys(p.limits for p in parts)
        }
        return Metrics(
            values={
                k: _stack([(len(p), p.values.get(k)) for p in parts], np.nan) for k in _keys(p.values for p in parts)
            },
            workloads=parts[0].workloads,
            reason=np.concatenate(codes),
            reasons=reasons,
            violations={
                k: _stack([(len(p), p.violations.get(k)) for p in parts], 0.0)
                for k in _keys(p.violations for p in parts)
            },
            limits=limits,
        )


def _keys(maps: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(key for one in maps for key in one))


def _stack(parts: Sequence[tuple[int, np.ndarray | None]], fill: float) -> np.ndarray:
    """Concatenate along rows; an absent part of n rows is filled."""
    width = next(a.shape[1:] for _, a in parts if a is not None)
    return np.concatenate([np.full((n, *width), fill) if a is None else a for n, a in parts])
