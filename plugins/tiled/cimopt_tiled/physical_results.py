"""From stage rows to metrics of the physical preset: totals, breakdowns and tables per layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cimopt.evaluators.base import names
from cimopt.evaluators.stages import StageRows
from cimopt.types import Designs, LayerTable, Workload
from cimopt_tiled.physical_energy import AREA_PARTS, ENERGY_PARTS, N_PARTS, Costs, layer_energy, total_energy
from cimopt_tiled.physical_layers import layer_results, layer_sums, together
from cimopt_tiled.physical_metrics import PER_WORKLOAD, fill_metrics
from cimopt_tiled.pool import Pool
from cimopt_tiled.prices import ARRAY_AREAS
from cimopt_tiled.timing import (
    LATENCY_TERMS,
    N_RESULTS,
    N_TERMS,
    R_LATENCY,
    R_PERIOD,
    T_SLOW,
    Point,
    evaluate_times,
)
from cimopt_tiled.totals import S_PER_NS

if TYPE_CHECKING:
    from cimopt_tiled.physical import TiledPhysical


@dataclass(frozen=True)
class Gathered:
    """Stage rows of a batch and what follows from them per design, each ``(n,)``.

    Attributes:
        structure, array, buffers, chip: the stages' rows.
        is_rram: memory technology.
        t_eff_s: the cycle as long as it must be.
        points: ``(n, 9)`` in the order of `cimopt_tiled.timing.Point`.
        costs: factors of energy.
        areas: area per component, mm2.
        t_program_s: time of one programming of all cells; 0 for SRAM.
        adc_bits, bits_per_cell: as used.
        pool, slots: what the structure stage keeps, and where, `ABSENT` where the weights do not fit.
    """

    structure: StageRows
    array: StageRows
    buffers: StageRows
    chip: StageRows
    is_rram: np.ndarray
    t_eff_s: np.ndarray
    points: np.ndarray
    costs: Costs
    areas: Mapping[str, np.ndarray]
    t_program_s: np.ndarray
    adc_bits: np.ndarray
    bits_per_cell: np.ndarray
    pool: Pool
    slots: np.ndarray

    @classmethod
    def of(cls, model: TiledPhysical, tables: Mapping[str, StageRows], designs: Designs, pool: Pool) -> Gathered:
        """Everything per design that does not depend on the workloads."""
        structure, array, buffers, chip = (tables[stage.name] for stage in model.stages)
        effects, constants = model.effects, model.constants
        options = model.options(designs)
        is_rram = designs["memory"] == "rram"
        cols, rows = designs["xbar_cols"], designs["xbar_rows"]
        energy, area, conversion = model.adc_factors(options["adc_bits"])
        n_adc = -(-cols // options["cols_per_adc"]) if effects.adc_sharing else cols
        t_cycle = designs["t_cycle_ns"] * S_PER_NS
        t_eff = np.maximum(t_cycle, array.gather("delay") * conversion) if effects.min_cycle_time else t_cycle
        pulse = constants.rram_write_pulses * constants.rram_pulse_s
        write_row = np.where(is_rram, pulse, t_eff) * effects.weight_write_time
        access = buffers.gather("access_s") * effects.buffer_bandwidth
        glb = chip.gather("access_s") * effects.glb_bandwidth
        point = Point(
            t_cycle, t_eff, 1 / options["rows_per_read"], 1 / n_adc, access[:, 0], access[:, 1], glb,
            chip.gather("glb_bits"), write_row,
        )  # fmt: skip
        leak = _leakage(structure, array, buffers, chip, n_adc)
        return cls(
            structure, array, buffers, chip, is_rram, t_eff, np.stack(point, axis=1).astype(float),
            _costs(model, is_rram, t_eff, energy, array, leak),
            _areas(structure, array, buffers, chip, n_adc, n_adc * area, effects.shift_add),
            np.where(is_rram, rows * pulse, 0.0), options["adc_bits"] if effects.adc_resolution else np.full(len(cols), 5),
            designs["bits_per_cell"], pool, structure.gather("slot"),
        )  # fmt: skip


def _leakage(
    structure: StageRows, array: StageRows, buffers: StageRows, chip: StageRows, n_adc: np.ndarray
) -> np.ndarray:
    """Static power of the chip in W, ``(n,)``; routers have none in the tables."""
    units = structure.gather("units")
    macro = array.gather("leak") + array.gather("adc_leak") * n_adc
    return units[:, 0] * macro + units[:, 1] * buffers.gather("leak") + chip.gather("leak")


def _areas(
    structure: StageRows, array: StageRows, buffers: StageRows, chip: StageRows,
    n_adc: np.ndarray, adc_units: np.ndarray, shift_add: bool,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Area of every component in mm2, each ``(n,)``; ``adc_units``: converters per array in table units of area."""
    units = structure.gather("units")
    macros, tiles = units[:, 0], units[:, 1]
    one = np.where(np.isnan(macros), np.nan, 1.0)
    of_array, of_tile, of_chip = array.gather("area"), buffers.gather("area"), chip.gather("area")
    found = {name: macros * of_array[:, k] for k, name in enumerate(ARRAY_AREAS)}
    found["adc"] = macros * adc_units * array.gather("adc_area")
    found["shift_add"] = macros * n_adc * array.gather("shift_add_mm2") * shift_add
    found |= {"input_buffers": tiles * of_tile[:, 0], "output_buffers": tiles * of_tile[:, 1]}
    found |= {"router": units[:, 2] * of_chip[:, 0], "glb": one * of_chip[:, 1]}
    return {name: found[name] for name in AREA_PARTS}


def _costs(
    model: TiledPhysical, is_rram: np.ndarray, t_eff: np.ndarray, adc: np.ndarray, array: StageRows, leak: np.ndarray
) -> Costs:
    effects, constants = model.effects, model.constants
    n = len(t_eff)
    cell = np.ones(n)
    if effects.read_pulse_fits_cycle:
        possible = t_eff / (2**model.code.step_bits - 1)
        cell = np.where(is_rram, np.minimum(1.0, possible / constants.read_pulse_s), 1.0)
    pulses = np.where(is_rram, constants.rram_write_pulses, 1.0)
    period = model.inference_period_s or 0.0
    return Costs(
        cell=cell,
        adc=adc,
        shift_add_j=array.gather("shift_add_j") * effects.shift_add,
        load=np.full(n, 1.0 / model.batch),
        write=pulses * effects.dynamic_writes,
        program=np.where(is_rram, pulses / model.inferences, 0.0) * effects.programming,
        leak_w=leak * effects.leakage,
        idle_w=leak * effects.idle,
        inference_s=np.full(n, period),
        batch=np.full(n, float(model.batch)),
    )


def combine(
    model: TiledPhysical, rows: Gathered, designs: Designs, workloads: Sequence[Workload], detail: str
) -> tuple[dict[str, np.ndarray], dict[str, LayerTable]]:
    """Metrics and, on request, breakdowns and tables per layer."""
    layers = model.layers(workloads)
    n, n_w = len(designs), len(workloads)
    keep = detail != "totals"
    results = np.empty((n, n_w, N_RESULTS))
    terms = np.empty((n, n_w, N_TERMS) if keep else (1, 1, N_TERMS))
    array, pool = rows.array, rows.pool
    entries = layers.entries
    evaluate_times(
        np.stack([rows.slots, array.rows]), ~rows.is_rram, rows.bits_per_cell,
        entries.starts, entries.shape, entries.repeats, entries.basis, layers.input_steps, layers.levels,
        layers.activation_bits, layers.dynamic,
        pool.array("cycles"), pool.array("slowed"), pool.array("work"), array.array("adc_price"), rows.points, model.physics(), results, terms, keep,
    )  # fmt: skip
    energy, program_j = np.empty((n, n_w)), np.empty((n, n_w))
    kept = np.empty((n, n_w, N_PARTS) if keep else (1, 1, N_PARTS))
    total_energy(
        np.stack([rows.slots, array.rows, rows.buffers.rows, rows.chip.rows]), pool.array("sums"), results,
        array.array("price"), rows.buffers.array("price"), rows.chip.array("price"), rows.costs, program_j,
        energy, kept, keep,
    )  # fmt: skip
    values = _metrics(model, rows, layers.macs, results, energy, program_j)
    if keep:
        values |= {f"energy_j.{name}": kept[:, :, i] for i, name in enumerate(ENERGY_PARTS)}
        values |= {f"area_mm2.{name}": area for name, area in rows.areas.items()}
        values |= {f"latency_s.{name}": terms[:, :, i] for i, name in enumerate(LATENCY_TERMS)}
        values["latency_s.programming"] = _per_inference(model, rows)[:, None] * np.ones(n_w)
    return values, _layer_tables(model, rows, designs, workloads, results) if detail == "layers" else {}


def _per_inference(model: TiledPhysical, rows: Gathered) -> np.ndarray:
    """Programming time per batch in s, ``(n,)``; NaN where the weights do not fit."""
    share = model.batch / model.inferences * model.effects.programming
    return np.where(rows.structure.gather("fits"), rows.t_program_s * share, np.nan)


def _metrics(
    model: TiledPhysical,
    rows: Gathered,
    macs: np.ndarray,
    results: np.ndarray,
    energy: np.ndarray,
    program_j: np.ndarray,
) -> dict[str, np.ndarray]:
    """All metrics; ``macs`` ``(w,)`` per inference."""
    pulses = np.where(rows.is_rram, model.constants.rram_write_pulses, 1.0)
    area = sum(rows.areas.values())
    found = np.empty((len(PER_WORKLOAD), *energy.shape))
    fill_metrics(
        rows.slots, rows.pool.array("figures"), results, energy, area, macs, float(model.batch),
        _per_inference(model, rows), rows.t_eff_s, rows.t_program_s, rows.adc_bits, found,
    )  # fmt: skip
    return {
        "energy_j": energy,
        "area_mm2": area,
        "t_cycle_eff_s": np.where(rows.slots < 0, np.nan, rows.t_eff_s),
        "program_energy_j": program_j * pulses[:, None],
        **dict(zip(PER_WORKLOAD, found, strict=True)),
    }


def _layer_tables(
    model: TiledPhysical, rows: Gathered, designs: Designs, workloads: Sequence[Workload], results: np.ndarray
) -> dict[str, LayerTable]:
    """Tables per workload; each entry counts all repeats of its layer."""
    layers = model.layers(workloads)
    structures, fits = rows.structure.gather("structure"), rows.structure.gather("fits")
    kernels = {m: model.kernel(m).count for m in np.unique(designs["memory"]).tolist()}
    found = {}
    for w, (name, listed) in enumerate(zip(names(workloads), layers.workloads, strict=True)):
        slowed = rows.pool.take("slowed", rows.slots)[:, w]
        counts, sums = layer_sums(layers, listed, structures, fits, designs["memory"], kernels, slowed)
        basis = listed.basis[:, structures[:, 0] - 1].swapaxes(0, 1)
        terms, per_layer = layer_results(
            layers,
            listed,
            rows.pool,
            rows.slots,
            slowed,
            rows.points,
            model.physics(),
            rows.array.gather("adc_price"),
            basis,
        )
        seconds = terms.sum(axis=2)
        share = seconds / results[:, w, R_LATENCY, None]
        per_layer[:, :, R_PERIOD] = results[:, w, R_PERIOD, None]
        parts = np.empty((*share.shape, N_PARTS))
        layer_energy(
            sums, per_layer, share, rows.array.gather("price"), rows.buffers.gather("price"),
            rows.chip.gather("price"), rows.costs, parts,
        )  # fmt: skip
        programming = _per_inference(model, rows)[:, None] * share
        values = {"energy_j": parts.sum(axis=2), "latency_s": seconds + programming}
        values["cycles"] = terms[:, :, : T_SLOW + 1].sum(axis=2) / rows.t_eff_s[:, None]
        values["utilization"] = counts / slowed[:, listed.shape]
        values["groups_per_array"] = together(layers, structures, fits, designs["memory"], kernels)[:, listed.shape]
        values |= {f"energy_j.{part}": parts[:, :, i] for i, part in enumerate(ENERGY_PARTS)}
        values |= {f"latency_s.{term}": terms[:, :, i] for i, term in enumerate(LATENCY_TERMS)}
        values["latency_s.programming"] = programming
        found[name] = LayerTable(listed.names, values)
    return found
