"""The physical preset: the published hierarchy with what hardware adds to it, each effect switchable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from cimopt_components import ComponentTables, adc_resolution, checked_bits, component_set

from cimopt.errors import InputError, unknown_name
from cimopt.evaluators.base import Evaluator, names
from cimopt.evaluators.stages import MAX_INDEX, Stage, StageRows
from cimopt.types import Designs, Limit, Metrics, Workload
from cimopt_tiled import physical_prices
from cimopt_tiled.counts import IO_BITS
from cimopt_tiled.effects import Constants, Effects, from_plain
from cimopt_tiled.evaluator import (
    MEMORIES,
    REASONS,
    STRUCTURE,
    cells_of,
    check_bits,
    check_nodes,
    same_workloads,
    whole,
)
from cimopt_tiled.inputs import InputCode
from cimopt_tiled.layers import LayerSet, layer_set
from cimopt_tiled.physical_prices import NO_QUIRKS
from cimopt_tiled.physical_results import Gathered, combine
from cimopt_tiled.pool import ABSENT, Pool
from cimopt_tiled.structure import Kernel
from cimopt_tiled.timing import Physics
from cimopt_tiled.work import FIG_GLB_BITS, WorkKernel, layer_work

GROUPED_POLICIES = ("one_group_per_array", "block_diagonal")
# What the structure stage keeps per structure, as `layer_work` returns it.
POOLED = ("cycles", "work", "slowed", "sums", "figures")
OPTIONAL = ("adc_bits", "cols_per_adc", "rows_per_read")


class TiledPhysical(Evaluator):
    """Tiled in-memory-computing chip with converters, bandwidths, leakage, programming and cycle-time limits.

    `adc_bits`, `cols_per_adc` and `rows_per_read` come from the space where it has them, else from the settings.
    """

    name = "tiled_physical"
    version = "2"  # products of two activations take turns in a pipeline
    requires = ("memory", "v_op", "t_cycle_ns", *STRUCTURE, "glb_mb", "node_nm")
    provides = (
        "energy_j", "latency_s", "area_mm2", "throughput_ips", "tops", "tops_per_w", "tops_per_mm2", "utilization",
        "edp", "cycles", "t_cycle_eff_s", "adc_bits_needed", "adc_clips", "bandwidth_bound", "swap_count",
        "program_energy_j", "program_time_s",
    )  # fmt: skip
    stages = (
        Stage("structure", reads=("memory", *STRUCTURE)),
        Stage("array", reads=("memory", "node_nm", "v_op", "xbar_rows", "xbar_cols"), per_network=False),
        Stage("buffers", reads=("node_nm", "macros_per_tile", "xbar_rows", "xbar_cols"), per_network=False),
        Stage("chip", reads=("node_nm", "glb_mb"), per_network=False),
    )

    def __init__(
        self,
        components: str = "neurosim_like",
        adc_bits: int | None = None,
        cols_per_adc: int | None = None,
        rows_per_read: int | None = None,
        input_bits_per_cycle: int = 1,
        batch: int = 1,
        inferences_per_programming: float = 1e6,
        inference_period_s: float | None = None,
        grouped_policy: str = "one_group_per_array",
        interpolate: bool = False,
        allow_unvalidated: bool = False,
        effects: Mapping[str, bool] | None = None,
        constants: Mapping[str, float] | None = None,
    ) -> None:
        """Settings as in ``conf/evaluator/tiled_physical.yaml``; ``None`` for the converter settings: the set's."""
        self.components = component_set(components)
        given = {"adc_bits": adc_bits, "cols_per_adc": cols_per_adc, "rows_per_read": rows_per_read}
        self.defaults = {k: self.components.defaults[k] if v is None else v for k, v in given.items()}
        for key, value in self.defaults.items():
            _check_option(f"evaluator.{self.name}.{key}", key, value)
        _check_whole(f"evaluator.{self.name}.input_bits_per_cycle", input_bits_per_cycle, IO_BITS)
        _check_whole(f"evaluator.{self.name}.batch", batch, None)
        if grouped_policy not in GROUPED_POLICIES:
            raise unknown_name(f"evaluator.{self.name}.grouped_policy", grouped_policy, GROUPED_POLICIES)
        self.effects = from_plain(Effects, f"evaluator.{self.name}.effects", effects or {}, switches=True)
        self.constants = from_plain(Constants, f"evaluator.{self.name}.constants", constants or {})
        step_bits = input_bits_per_cycle if self.effects.bit_serial else IO_BITS
        self.code = InputCode(step_bits, rows_by_pulse=self.components.dac_j is not None)
        self.batch = batch if self.effects.batching else 1
        self.inferences = _positive(f"evaluator.{self.name}.inferences_per_programming", inferences_per_programming)
        period = f"evaluator.{self.name}.inference_period_s"
        self.inference_period_s = None if inference_period_s is None else _positive(period, inference_period_s)
        self.grouped_policy = grouped_policy
        self.allow_unvalidated = _boolean(f"evaluator.{self.name}.allow_unvalidated", allow_unvalidated)
        self._components = ComponentTables(
            interpolate=_boolean(f"evaluator.{self.name}.interpolate", interpolate), allow_unvalidated=allow_unvalidated
        )
        self._known_layers: tuple[tuple[Workload, ...], LayerSet] | None = None
        self._pool, self._pooled_for = Pool(), None

    def cache_key(self) -> dict[str, Any]:
        """Every setting: all that changes a result."""
        return {
            "components": self.components.name,
            **self.defaults,
            "input_steps": {"steps": int(self.code.steps()), "bits": self.code.step_bits},
            "batch": self.batch,
            "inferences_per_programming": self.inferences,
            "inference_period_s": self.inference_period_s,
            "grouped_policy": self.grouped_policy,
            "interpolate": self._components.interpolate,
            "allow_unvalidated": self.allow_unvalidated,
            "effects": asdict(self.effects),
            "constants": asdict(self.constants),
        }

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_known_layers": None, "_pool": Pool(), "_pooled_for": None}

    def layers(self, workloads: Sequence[Workload]) -> LayerSet:
        """The workloads as arrays, kept for the next batch with the same workloads."""
        key = tuple(workloads)
        if self._known_layers is None or not same_workloads(self._known_layers[0], key):
            found = layer_set(
                key,
                NO_QUIRKS.stride_ignored,
                NO_QUIRKS.groups_ignored_in_capacity,
                self.effects.dynamic_writes,
                self.code,
            )
            self._known_layers = (key, found)
        return self._known_layers[1]

    def kernel(self, memory: str) -> WorkKernel:
        """Switches of the counting kernel for one memory."""
        pack = self.grouped_policy == "block_diagonal"
        return WorkKernel(Kernel.of(memory, NO_QUIRKS, pack), memory == "rram" and self.effects.resident_replicas)

    def physics(self) -> Physics:
        """Settings as the numbers the time kernel takes."""
        e, c = self.effects, self.constants
        return Physics(
            limits_rows=e.row_limit,
            shares=e.adc_sharing,
            dram_s_per_bit=1 / c.dram_bits_per_s if e.dram_bandwidth else 0.0,
            noc_s_per_word=1 / c.noc_hz if e.noc_bandwidth else 0.0,
            batch=float(self.batch),
            spills=float(e.activation_spill),
            pipelined=e.pipelining,
        )

    # ------------------------------------------------------------------ stages
    def stage_structure(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """Slots of cycles ``(k,)``, work ``(k, 11)``, slow-down ``(w, k)``, sums ``(w, 44)`` and figures ``(w, 2)``.

        Structures that cannot hold the weights have none.
        """
        layers = self.layers(workloads)
        structures = np.stack([whole(name, params[name]) for name in STRUCTURE], axis=1)
        check_bits(params["memory"], structures[:, 0])
        needed, present = cells_of(layers, structures)
        fits = (params["memory"] != "rram") | (needed <= present)
        slots = np.full(len(structures), ABSENT)
        for memory in MEMORIES:
            here = np.flatnonzero(fits & (params["memory"] == memory))
            if here.size or not self._pool.used:
                found = layer_work(structures[here], layers, self.kernel(memory))
                slots[here] = self._pool.extend(dict(zip(POOLED, found, strict=True)))
        units = np.cumprod(structures[:, :2:-1], axis=1)[:, ::-1].astype(float)
        units[~fits] = np.nan
        return {
            "slot": slots, "fits": fits, "needed_cells": needed, "present_cells": present, "units": units,
            "structure": structures,
        }  # fmt: skip

    def run_stages(self, designs: Designs, workloads: Sequence[Workload]) -> dict[str, StageRows]:
        """The stages; what the structure stage keeps lives as long as its table does."""
        tables = self._stage_tables(designs, workloads)
        if self._pooled_for is not tables["structure"] or tables["structure"].size > MAX_INDEX:
            self._pooled_for, self._pool = tables["structure"], Pool()
        return super().run_stages(designs, workloads)

    def stage_array(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """One macro: prices, areas, leakage and delay (`cimopt_tiled.physical_prices.array_stage`)."""
        memories = params["memory"]
        check_nodes(self, params["node_nm"])
        parts: dict[str, np.ndarray] = {}
        for memory in np.unique(memories):
            if memory not in MEMORIES:
                raise unknown_name("memory", memory, MEMORIES)
            here = np.flatnonzero(memories == memory)
            some = {name: values[here] for name, values in params.items()}
            found = physical_prices.array_stage(
                self._components, self.components, str(memory), self.code, self.constants, some
            )
            for key, values in found.items():
                parts.setdefault(key, np.empty((len(memories), *values.shape[1:])))[here] = values
        return parts

    def stage_buffers(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """One tile's buffers: price ``(m, 4)``, area ``(m, 2)``, leakage ``(m,)``, seconds per access ``(m, 2)``."""
        check_nodes(self, params["node_nm"])
        return physical_prices.buffer_stage(self._components, dict(params))

    def stage_chip(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """Price ``(m, 4)``, area ``(m, 2)``, global-buffer bits, leakage and seconds per access ``(m,)``."""
        check_nodes(self, params["node_nm"])
        return physical_prices.chip_stage(self._components, dict(params))

    # ----------------------------------------------------------------- results
    def options(self, designs: Designs) -> dict[str, np.ndarray]:
        """`adc_bits`, `cols_per_adc` and `rows_per_read` of every design, int ``(n,)``."""
        found = {}
        for key in OPTIONAL:
            if key in designs.parameters.all_names:
                found[key] = _check_option(key, key, designs[key])
            else:
                found[key] = np.full(len(designs), self.defaults[key], np.int64)
        return found

    def precheck(self, designs: Designs, workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """``cells``: by how much the weights of the largest workload exceed the cells (RRAM only)."""
        is_rram = designs["memory"] == "rram"
        if not is_rram.any():
            return {}
        structures = np.stack([whole(name, designs[name]) for name in STRUCTURE], axis=1)
        needed, present = cells_of(self.layers(workloads), structures)
        return {"cells": np.where(is_rram, needed / present - 1, 0.0)}

    def combine(
        self, tables: Mapping[str, StageRows], designs: Designs, workloads: Sequence[Workload], detail: str
    ) -> Metrics:
        """Times, energies and areas of every design and workload, and the limits."""
        rows = Gathered.of(self, tables, designs, self._pool)
        values, layers = combine(self, rows, designs, workloads, detail)
        violations, limits = self._limits(rows, designs)
        return Metrics(
            values=values,
            workloads=names(workloads),
            reason=(~rows.structure.gather("fits")).astype(np.int16),
            reasons=REASONS,
            violations=violations,
            limits=limits,
            layers=layers,
        )

    def _limits(self, rows: Gathered, designs: Designs) -> tuple[dict[str, np.ndarray], dict[str, Limit]]:
        """``cells`` for RRAM; ``glb`` unless what does not fit there spills."""
        violations: dict[str, np.ndarray] = {}
        limits: dict[str, Limit] = {}
        structure = rows.structure
        if not self.effects.activation_spill:
            needed = rows.pool.take("figures", rows.slots)[:, :, FIG_GLB_BITS].max(axis=1)
            limit = rows.chip.gather("glb_bits")
            violations["glb"] = np.where(structure.gather("fits"), needed / limit - 1, 0.0)
            limits["glb"] = Limit(needed, limit, "bit")
        is_rram = designs["memory"] == "rram"
        if is_rram.any():
            cells, present = structure.gather("needed_cells"), structure.gather("present_cells")
            violations["cells"] = np.where(is_rram, cells / present - 1, 0.0)
            limits["cells"] = Limit(cells, present, "cell")
        return violations, limits

    def adc_factors(self, adc_bits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Energy and area factors on the converter price and area, and conversion time over 8 bits, each ``(n,)``."""
        table = adc_resolution()
        absolute = not self.components.adc_from_tables
        bits = adc_bits if self.effects.adc_resolution else np.full(len(adc_bits), 5)
        energy = table.energy_j if absolute else table.relative_energy
        area = table.area_mm2 if absolute else table.relative_area
        return energy[bits], area[bits], bits / 8


def _check_option(name: str, key: str, value: Any) -> np.ndarray:
    """The option as int64; converter bits are 1..16, the others at least 1."""
    if isinstance(value, bool):
        raise InputError(f"{name}={value} must be a whole number")
    return checked_bits(name, value) if key == "adc_bits" else _numbers(name, value)


def _numbers(name: str, value: Any) -> np.ndarray:
    values = np.asarray(value)
    if values.dtype.kind not in "iuf":
        raise InputError(f"{name}={value!r} must be a whole number >= 1")
    return whole(name, values)


def _check_whole(name: str, value: Any, most: int | None) -> None:
    if type(value) is not int or value < 1 or (most is not None and value > most):
        raise InputError(f"{name}={value!r} must be a whole number " + (f"1..{most}" if most else ">= 1"))


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InputError(f"{name}={value!r} must be a number > 0")
    return float(value)


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r} must be true or false")
    return value
