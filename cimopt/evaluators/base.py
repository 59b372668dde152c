"""The evaluator contract: designs x workloads -> metrics.

You compute, the base class validates. A minimal plug-in:

    class Cells(Evaluator):
        name, version = "cells", "1"
        requires, provides = ("xbar_rows", "xbar_cols"), ("cells",)

        def evaluate(self, designs, workloads, detail="totals"):
            cells = designs["xbar_rows"] * designs["xbar_cols"]
            return Metrics({"cells": cells.astype(float)}, names(workloads))

When each method is called, by whom, with what state:

- `from_config(config)` and `__init__`: once, in the process that evaluates (a Ray worker builds
  its own), from plain Python values. Heavy tables load on first use, not here.
- `precheck(designs, workloads)`: by the chain and by a sampler for its start pool; cheap.
- `evaluate(designs, workloads, detail)`: by the runner, any number of times, any batch size >= 1,
  in any order. It must not keep anything that changes a later result.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cimopt.errors import ContractError, unknown_name
from cimopt.evaluators import stage_cache
from cimopt.evaluators.stages import Stage, StageRows, StageTable
from cimopt.types import DETAILS, Designs, Metrics, Workload

Workloads = Sequence[Workload]


def names(workloads: Workloads) -> tuple[str, ...]:
    """The workloads' names, in order: the second axis of per-workload metrics."""
    return tuple(w.name for w in workloads)


class Evaluator(ABC):
    """Designs x workloads -> metrics. Subclass, fill the class attributes, write `evaluate`.

    Class attributes: `name`, `version` (both part of cache keys), `requires` (parameters, and
    metrics of earlier evaluators, that it reads), `provides` (metrics it fills).
    Either override `evaluate`, or declare `stages` and write `stage_<name>` and `combine`.
    """

    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    provides: ClassVar[tuple[str, ...]] = ()
    stages: ClassVar[tuple[Stage, ...]] = ()
    # Large stage tables are kept on disk (see `stage_cache`) when this is set; `computes_with` names packages whose
    # files also decide the rows. Rows must mean the same in another process: no index into the instance's own state.
    keep_stages: ClassVar[bool] = False
    # Its metrics cost next to nothing: limits on them are known before anything else is evaluated, as amounts of
    # `precheck` are. Only for evaluators that read no other evaluator's metrics.
    cheap: ClassVar[bool] = False
    # Chains and wrappers pass on what their inner evaluators' base class has checked already.
    passes_on: ClassVar[bool] = False
    computes_with: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "evaluate" in cls.__dict__ and not cls.passes_on:
            cls.evaluate = _validated(cls.__dict__["evaluate"])

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Evaluator:
        """Build from the plug-in's config section; an unknown key is refused with the nearest right one."""
        allowed = [p for p in inspect.signature(cls.__init__).parameters if p not in ("self", "args", "kwargs")]
        for key in config:
            if key not in allowed:
                raise unknown_name(f"key in evaluator.{cls.name}", key, allowed)
        return cls(**config)

    def evaluate(self, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        """Metrics of every design. `detail` adds breakdowns: "components", or "layers" too."""
        if not type(self).stages:
            raise NotImplementedError(f"evaluator '{self.name}' must write evaluate(), or stages and combine()")
        return self.combine(self.run_stages(designs, workloads), designs, workloads, detail)

    def combine(self, tables: Mapping[str, StageRows], designs: Designs, workloads: Workloads, detail: str) -> Metrics:
        """Turn gathered stage rows into metrics (evaluators with `stages`)."""
        raise NotImplementedError(f"evaluator '{self.name}' declares stages but has no combine()")

    def precheck(self, designs: Designs, workloads: Workloads) -> dict[str, np.ndarray]:
        """Cheap violations, name -> (n,) relative amount (> 0 violated), run before the costly part."""
        return {}

    def cache_key(self) -> dict[str, Any]:
        """What, besides name and version, changes this evaluator's results (its settings)."""
        return {}

    def run_stages(self, designs: Designs, workloads: Workloads) -> dict[str, StageRows]:
        """Every declared stage for this batch; known combinations are looked up, new ones computed."""
        tables = self._stage_tables(designs, workloads)
        rows = {stage.name: self._run_stage(stage, tables[stage.name], designs, workloads) for stage in self.stages}
        for stage in self.stages if self.keep_stages else ():
            if tables[stage.name].unsaved >= stage_cache.SAVE_ROWS:
                tables[stage.name].save(self._stage_path(stage, designs, workloads))
        return rows

    def _stage_path(self, stage: Stage, designs: Designs, workloads: Workloads) -> Path:
        """The file that keeps one stage's table: everything that decides its rows is in its name."""
        return stage_cache.path_of(
            {
                "evaluator": self.name,
                "version": self.version,
                "settings": self.cache_key(),
                "stage": stage.name,
                "reads": stage.reads,
                "parameters": designs.parameters.fingerprint,
                "workloads": [w.fingerprint for w in workloads] if stage.per_network else [],
                "code": stage_cache.code_of(type(self), self.computes_with),
            }
        )

    def _run_stage(self, stage: Stage, table: StageTable, designs: Designs, workloads: Workloads) -> StageRows:
        method = getattr(self, f"stage_{stage.name}")
        return table.rows(designs, lambda some: method({p: some[p] for p in stage.reads}, workloads))

    def _stage_tables(self, designs: Designs, workloads: Workloads) -> dict[str, StageTable]:
        """The tables of this space and these workloads; only one of each is held, which bounds the memory."""
        space, nets = designs.parameters.fingerprint, tuple(w.fingerprint for w in workloads)
        known = self.__dict__.setdefault("_tables", {})
        for stage in self.stages:
            meant_for = (space, nets) if stage.per_network else (space,)
            if known.get(stage.name, (None,))[0] != meant_for:
                table = StageTable(stage, designs.parameters)
                if self.keep_stages:
                    table.load(self._stage_path(stage, designs, workloads))
                known[stage.name] = (meant_for, table)
        return {name: table for name, (_, table) in known.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle settings, not tables: a worker fills its own."""
        return {k: v for k, v in self.__dict__.items() if k != "_tables"}


def _validated(method):
    """Wrap an `evaluate` so that wrong input never enters it and wrong output never leaves it."""

    @functools.wraps(method)
    def evaluate(self: Evaluator, designs: Designs, workloads: Workloads, detail: str = "totals") -> Metrics:
        _check_input(self, designs, workloads, detail)
        metrics = method(self, designs, workloads, detail)
        check_metrics(self, metrics, len(designs), workloads)
        return metrics

    return evaluate


Evaluator.evaluate = _validated(Evaluator.evaluate)


def _check_input(evaluator: Evaluator, designs: Designs, workloads: Workloads, detail: str) -> None:
    if detail not in DETAILS:
        raise unknown_name("detail", detail, DETAILS)
    if not workloads:
        raise ContractError(f"evaluator '{evaluator.name}' was called without workloads")
    known = {*designs.parameters.all_names, *designs.upstream}
    for need in evaluator.requires:
        if need not in known:
            raise unknown_name(f"input of evaluator '{evaluator.name}'", need, known)


def check_metrics(evaluator: Evaluator, metrics: Metrics, n: int, workloads: Workloads) -> None:
    """Raise `ContractError` unless shapes, reasons and NaN agree with the contract."""
    who = f"evaluator '{evaluator.name}'"
    if metrics.workloads != names(workloads):
        raise ContractError(f"{who} answered for workloads {metrics.workloads}, asked for {names(workloads)}")
    if metrics.reason.shape != (n,) or metrics.reason.dtype != np.int16:
        raise ContractError(f"{who}: reason must be int16 ({n},), got {metrics.reason.dtype} {metrics.reason.shape}")
    if n and (metrics.reason.min() < 0 or metrics.reason.max() >= len(metrics.reasons)):
        raise ContractError(f"{who}: a reason has no text in reasons")
    for name in evaluator.provides:
        if name not in metrics.values and metrics.ok.any():
            raise ContractError(f"{who} promises '{name}' and did not give it")
    for name, values in metrics.values.items():
        _check_values(who, name, values, metrics, n, len(workloads))
    for name, amounts in metrics.violations.items():
        if amounts.shape != (n,) or np.isnan(amounts).any():
            raise ContractError(f"{who}: violation '{name}' must be ({n},) without NaN")


def _check_values(who: str, name: str, values: np.ndarray, metrics: Metrics, n: int, w: int) -> None:
    if values.shape not in ((n,), (n, w)):
        raise ContractError(f"{who}: '{name}' has shape {values.shape}, expected ({n},) or ({n}, {w})")
    columns = values.size // n if n else 1
    ok = metrics.ok
    finite = np.isfinite(values)
    n_ok = int(ok.sum())
    if n_ok == n and finite.all():
        return  # the usual case, without copies: batches may hold a million rows
    finite, flat = finite.reshape(n, columns), values.reshape(n, columns)
    if not finite[ok].all():
        raise ContractError(f"{who}: '{name}' is not finite in a row without a reason")
    if np.count_nonzero(np.isnan(flat)) != (n - n_ok) * columns:
        raise ContractError(f"{who}: '{name}' has a value in a row with a reason; it must be NaN there")
