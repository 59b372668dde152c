"""The evaluator: stages for structure, array, buffers and chip, joined by a dot product per design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from cimopt_components import ComponentTables

from cimopt.errors import InputError, unknown_name
from cimopt.evaluators.base import Evaluator, names
from cimopt.evaluators.stages import Stage, StageRows
from cimopt.types import MAX_BITS_PER_CELL, Designs, LayerTable, Limit, Metrics, Workload
from cimopt_tiled import prices, totals
from cimopt_tiled.counts import IO_BITS
from cimopt_tiled.layer_detail import layer_tables
from cimopt_tiled.layers import LayerSet, layer_set
from cimopt_tiled.quirks import Quirks
from cimopt_tiled.structure import FIG_GLB_BITS, N_DATA_SUMS, N_FIGURES, N_SUMS, Kernel, sum_layers

MEMORIES = ("rram", "sram")
PRESETS = ("published",)
UNVALIDATED_NODES_NM = (65, 90)
REASONS = ("ok", "the weights do not fit into the cells")
STRUCTURE = ("bits_per_cell", "xbar_rows", "xbar_cols", "macros_per_tile", "tiles_per_router", "router_groups")


class TiledEvaluator(Evaluator):
    """Tiled in-memory-computing chip, as published (arXiv 2603.03880): energy, latency and area.

    RRAM holds all weights and replicates them over idle arrays; SRAM swaps weights in from LPDDR4.
    The published preset reproduces the published numbers, quirks included; it is not silicon-accurate.
    """

    name = "tiled_published"
    version = "1"
    keep_stages = True
    computes_with = ("cimopt_components",)
    requires = ("memory", "v_op", "t_cycle_ns", *STRUCTURE, "glb_mb", "node_nm")
    provides = (
        "energy_j", "latency_s", "area_mm2", "utilization", "throughput_ips", "cycles", "tops", "tops_per_w",
        "tops_per_mm2", "edp",
    )  # fmt: skip
    stages = (
        Stage("structure", reads=("memory", *STRUCTURE)),
        Stage("array", reads=("memory", "node_nm", "v_op", "xbar_rows", "xbar_cols"), per_network=False),
        Stage("buffers", reads=("node_nm", "macros_per_tile", "xbar_rows", "xbar_cols"), per_network=False),
        Stage("chip", reads=("node_nm", "glb_mb"), per_network=False),
    )

    def __init__(
        self, preset: str = "published", quirks: Mapping[str, bool] | None = None, allow_unvalidated: bool = False
    ) -> None:
        """Settings.

        Args:
            preset: "published"; the physical preset is an evaluator of its own, `tiled_physical`.
            quirks: fields of `Quirks` to switch; those left out stay on.
            allow_unvalidated: evaluate 65 and 90 nm, which no published point covers.
        """
        if preset not in PRESETS:
            raise unknown_name(f"preset of evaluator.{self.name}", preset, PRESETS)
        self.preset = preset
        self.quirks = self._quirks(quirks or {})
        if not isinstance(allow_unvalidated, bool):
            raise InputError(f"evaluator.{self.name}.allow_unvalidated={allow_unvalidated!r} must be true or false")
        self.allow_unvalidated = allow_unvalidated
        self._components = ComponentTables(allow_unvalidated=allow_unvalidated)
        self._known_layers: tuple[tuple[Workload, ...], LayerSet] | None = None

    def _quirks(self, given: Mapping[str, bool]) -> Quirks:
        known = asdict(Quirks())
        for key, value in given.items():
            if key not in known:
                raise unknown_name(f"key in evaluator.{self.name}.quirks", key, known)
            if not isinstance(value, bool):
                raise InputError(f"evaluator.{self.name}.quirks.{key}={value!r} must be true or false")
        return Quirks(**given)

    def cache_key(self) -> dict[str, Any]:
        """All settings that change a result."""
        settings: dict[str, Any] = {"preset": self.preset, "quirks": asdict(self.quirks)}
        return settings | ({"allow_unvalidated": True} if self.allow_unvalidated else {})

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_known_layers": None}

    def _layers(self, workloads: Sequence[Workload]) -> LayerSet:
        """The workloads as arrays, kept for the next batch with the same workloads."""
        key = tuple(workloads)
        if self._known_layers is None or not same_workloads(self._known_layers[0], key):
            quirks = self.quirks
            for workload in key:
                self._check_inputs(workload)
            self._known_layers = (key, layer_set(key, quirks.stride_ignored, quirks.groups_ignored_in_capacity))
        return self._known_layers[1]

    def _check_inputs(self, workload: Workload) -> None:
        """The published input is one step of at most 8 bits."""
        for layer in workload.layers:
            if layer.activation_bits > IO_BITS:
                raise InputError(
                    f"layer '{layer.name}' of workload '{workload.name}': activation_bits={layer.activation_bits}; "
                    f"{self.name} feeds an input in one step of at most {IO_BITS} bits, evaluator=tiled_physical takes more"
                )

    # ------------------------------------------------------------------ stages
    def stage_structure(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """Sums ``(m, w, 28)``, figures ``(m, w, 3)``, units ``(m, 3)``; NaN where RRAM cannot hold the weights."""
        layers = self._layers(workloads)
        structures = np.stack([whole(name, params[name]) for name in STRUCTURE], axis=1)
        check_bits(params["memory"], structures[:, 0])
        needed, present = cells_of(layers, structures)
        fits = (params["memory"] != "rram") | (needed <= present)
        m, w = len(structures), len(workloads)
        sums, figures = np.full((m, w, N_SUMS), np.nan), np.full((m, w, N_FIGURES), np.nan)
        for memory in MEMORIES:
            here = np.flatnonzero(fits & (params["memory"] == memory))
            if here.size:
                kernel = Kernel.of(memory, self.quirks)
                sums[here], figures[here] = sum_layers(
                    structures[here], layers.dims, layers.steps, layers.widths, layers.basis, layers.driven, kernel
                )
        units = np.cumprod(structures[:, :2:-1], axis=1)[:, ::-1].astype(float)
        units[~fits] = np.nan
        return {
            "sums": sums,
            "figures": figures,
            "units": units,
            "structure": structures,
            "fits": fits,
            "glb_bits": figures[:, :, FIG_GLB_BITS].max(axis=1),
            "needed_cells": needed,
            "present_cells": present,
        }

    def stage_array(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """Price ``(m, 20)`` and area ``(m, 5)`` of one macro."""
        memories = params["memory"]
        check_nodes(self, params["node_nm"])
        for memory in np.unique(memories):
            if memory not in MEMORIES:
                raise unknown_name("memory", memory, MEMORIES)
        parts = {
            "price": np.empty((len(memories), N_DATA_SUMS)),
            "area": np.empty((len(memories), len(prices.ARRAY_AREAS))),
        }
        for memory in np.unique(memories):
            here = np.flatnonzero(memories == memory)
            some = {name: values[here] for name, values in params.items()}
            for key, values in prices.array_prices(self._components, str(memory), self.quirks, some).items():
                parts[key][here] = values
        return parts

    def stage_buffers(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """Price ``(m, 4)`` and area ``(m, 2)`` of one tile's buffers."""
        check_nodes(self, params["node_nm"])
        return prices.buffer_prices(self._components, self.quirks, dict(params))

    def stage_chip(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """Price ``(m, 4)``, area ``(m, 2)`` and global-buffer bits ``(m,)``."""
        check_nodes(self, params["node_nm"])
        return prices.chip_prices(self._components, self.quirks, dict(params))

    # ----------------------------------------------------------------- results
    def precheck(self, designs: Designs, workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """``cells``: by how much the weights of the largest workload exceed the cells (RRAM only)."""
        is_rram = designs["memory"] == "rram"
        if not is_rram.any():
            return {}
        layers = self._layers(workloads)
        needed, present = cells_of(layers, np.stack([whole(name, designs[name]) for name in STRUCTURE], axis=1))
        return {"cells": np.where(is_rram, needed / present - 1, 0.0)}

    def combine(
        self, tables: Mapping[str, StageRows], designs: Designs, workloads: Sequence[Workload], detail: str
    ) -> Metrics:
        """One dot product per design and workload, and the two limits."""
        structure, array, buffers, chip = (tables[stage.name] for stage in self.stages)
        at = np.stack([rows.rows for rows in (structure, array, buffers, chip)])
        found = totals.totals(
            at,
            *(structure.array(key) for key in ("sums", "figures", "units")),
            *(part.array(key) for part in (array, buffers, chip) for key in ("price", "area")),
            designs["t_cycle_ns"] * totals.S_PER_NS,
            self._layers(workloads).macs,
        )
        values: dict[str, np.ndarray] = dict(zip(self.provides, found, strict=True))
        violations, limits = self._limits(structure, chip, designs)
        layers: dict[str, LayerTable] = {}
        if detail != "totals":
            values |= _breakdown(structure, array, buffers, chip)
        if detail == "layers":
            layers = self._layer_detail(structure, array, buffers, chip, designs, workloads)
        return Metrics(
            values=values,
            workloads=names(workloads),
            reason=(~structure.gather("fits")).astype(np.int16),
            reasons=REASONS,
            violations=violations,
            limits=limits,
            layers=layers,
        )

    def _limits(
        self, structure: StageRows, chip: StageRows, designs: Designs
    ) -> tuple[dict[str, np.ndarray], dict[str, Limit]]:
        """Amounts of ``glb`` (0 where it is not known: the weights do not fit) and, for RRAM, of ``cells``."""
        needed, limit = structure.gather("glb_bits"), chip.gather("glb_bits")
        violations = {"glb": np.where(structure.gather("fits"), needed / limit - 1, 0.0)}
        limits = {"glb": Limit(needed, limit, "bit")}
        is_rram = designs["memory"] == "rram"
        if is_rram.any():
            cells, present = structure.gather("needed_cells"), structure.gather("present_cells")
            violations["cells"] = np.where(is_rram, cells / present - 1, 0.0)
            limits["cells"] = Limit(cells, present, "cell")
        return violations, limits

    def _layer_detail(
        self,
        structure: StageRows,
        array: StageRows,
        buffers: StageRows,
        chip: StageRows,
        designs: Designs,
        workloads: Sequence[Workload],
    ) -> dict[str, LayerTable]:
        return layer_tables(
            self._layers(workloads),
            names(workloads),
            structure.gather("structure"),
            structure.gather("fits"),
            designs["memory"],
            _all_prices(array, buffers, chip),
            designs["t_cycle_ns"] * totals.S_PER_NS,
            self.quirks,
        )


def same_workloads(known: Sequence[Workload], asked: Sequence[Workload]) -> bool:
    return len(known) == len(asked) and all(a is b for a, b in zip(known, asked, strict=True))


def whole(name: str, values: np.ndarray) -> np.ndarray:
    """Counts as int64; a value that is no positive whole number is refused."""
    whole = np.asarray(values).astype(np.int64)
    wrong = (whole != values) | (whole < 1)
    if wrong.any():
        raise InputError(f"{name}={np.asarray(values)[wrong][0]} must be a whole number >= 1")
    return whole


def check_nodes(model: Any, node_nm: np.ndarray) -> None:
    """Refuse nodes that no published design validates, unless ``model.allow_unvalidated``."""
    wrong = np.isin(node_nm, UNVALIDATED_NODES_NM)
    if wrong.any() and not model.allow_unvalidated:
        raise InputError(
            f"node_nm={node_nm[wrong][0]} is not validated by any published design; evaluator.{model.name}."
            "allow_unvalidated=true accepts its tables and a router scaled from 45 nm"
        )


def check_bits(memory: np.ndarray, bits: np.ndarray) -> None:
    if (bits > MAX_BITS_PER_CELL).any():
        raise InputError(f"bits_per_cell={bits.max()} must be 1..{MAX_BITS_PER_CELL}")
    wrong = (memory == "sram") & (bits != 1)
    if wrong.any():
        raise InputError(f"bits_per_cell={bits[wrong][0]} with memory=sram: an SRAM cell holds 1 bit")


def cells_of(layers: LayerSet, structures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells the largest workload needs and cells on the chip, each ``(m,)``."""
    return layers.needed_cells(structures[:, 0]).max(axis=1), structures[:, 1:].prod(axis=1).astype(float)


def _all_prices(array: StageRows, buffers: StageRows, chip: StageRows) -> np.ndarray:
    """Prices of every sum, ``(n, 28)``."""
    return np.concatenate([part.gather("price") for part in (array, buffers, chip)], axis=1)


def _breakdown(structure: StageRows, array: StageRows, buffers: StageRows, chip: StageRows) -> dict[str, np.ndarray]:
    """``energy_j.<component>`` ``(n, w)`` and ``area_mm2.<component>`` ``(n,)``."""
    energy = totals.energy_parts(structure.gather("sums"), _all_prices(array, buffers, chip))
    area = totals.area_parts(
        structure.gather("units"), array.gather("area"), buffers.gather("area"), chip.gather("area")
    )
    return {f"energy_j.{k}": v for k, v in energy.items()} | {f"area_mm2.{k}": v for k, v in area.items()}
