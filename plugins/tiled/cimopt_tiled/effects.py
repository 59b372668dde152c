"""What the physical preset adds to the published one: switches and constants, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from cimopt.errors import InputError, unknown_name

Record = TypeVar("Record")


@dataclass(frozen=True)
class Effects:
    """Each effect can be switched off; with all off the model is the published one without its quirks.

    Attributes:
        bit_serial: an 8-bit input takes ceil(8 / input_bits_per_cycle) steps; rows and cells see its bits,
            not 255 pulses.
        read_pulse_fits_cycle: an RRAM cell conducts only as long as the cycle lasts (the tables assume 10 ns).
        adc_resolution: energy, area and speed of converters follow ``adc_bits`` (the tables have 5 bits).
        adc_sharing: ``cols_per_adc`` columns share a converter: more steps, fewer converters.
        row_limit: at most ``rows_per_read`` rows of an array are read at once: more steps and conversions.
        shift_add: partial sums of steps and slices are added in the macro, at a cost.
        min_cycle_time: the cycle is never shorter than the alpha-power delay at ``v_op`` allows.
        dram_bandwidth: weights and spilled activations take time to cross the DRAM interface.
        weight_write_time: writing weights row by row takes time, during which the array does not compute.
        programming: RRAM programming, spread over ``inferences_per_programming``.
        dynamic_writes: products of two activations write one operand into the cells, each inference.
        noc_bandwidth: a router moves one word per cycle of its clock.
        buffer_bandwidth: tile buffers serve as many accesses per second as their tables say.
        glb_bandwidth: the same for the global buffer.
        activation_spill: inputs and outputs of a layer beyond the global buffer go to DRAM and back; the
            global buffer is then no limit of feasibility.
        leakage: static power of cells, drivers, converters and buffers while an inference lasts.
        idle: the same power between inferences, when they come every ``inference_period_s``.
        resident_replicas: in RRAM, copies of weights need cells of their own beside all other layers.
        pipelining: in RRAM, layers work on different inputs at the same time.
        batching: weights are brought in once for ``batch`` inputs.
    """

    bit_serial: bool = True
    read_pulse_fits_cycle: bool = True
    adc_resolution: bool = True
    adc_sharing: bool = True
    row_limit: bool = True
    shift_add: bool = True
    min_cycle_time: bool = True
    dram_bandwidth: bool = True
    weight_write_time: bool = True
    programming: bool = True
    dynamic_writes: bool = True
    noc_bandwidth: bool = True
    buffer_bandwidth: bool = True
    glb_bandwidth: bool = True
    activation_spill: bool = True
    leakage: bool = True
    idle: bool = True
    resident_replicas: bool = True
    pipelining: bool = True
    batching: bool = True

    @classmethod
    def none(cls) -> Effects:
        """All switched off."""
        return cls(**{field.name: False for field in fields(cls)})


@dataclass(frozen=True)
class Constants:
    """Numbers of the effects. Sources: README of this plug-in, table "Constants"."""

    # Exponent of the alpha-power law: Sakurai and Newton, JSSC 25(2), 1990.
    alpha: float = 1.3
    # Threshold voltage fitted to the five points of Wang (VLSI 2022, 22 nm), experiments/silicon_validation.
    v_threshold: float = 0.33
    # One cycle of a measured 8-bit macro: Wang (VLSI 2022), 22 nm, 1.0 V: 2 x 64 x 16 operations at
    # 3.596 TOPS/mm2 on 0.124 mm2.
    t_macro_s: float = 2048 / (3.596e12 * 0.124)
    v_macro: float = 1.0
    node_macro_nm: float = 22
    # Read pulse behind the tables' cell energies (data/SOURCES.md of cimopt-components).
    read_pulse_s: float = 10e-9
    # LPDDR4 x32 at 3200 MT/s: JEDEC JESD209-4.
    dram_bits_per_s: float = 32 * 3200e6
    # Router: one 128-bit word per cycle of 1 ns, ISAAC router of hwcomponents-library 1.0.58.
    noc_hz: float = 1e9
    # Pulses until a cell holds its level: mean of the write-verify loop of Wan, Nature 2022, Ext. Data Fig. 3f.
    rram_write_pulses: float = 8.52
    # Write pulse (at 2 V) of the cell behind the RRAM table: CiMLoop's cell file rram_neurosim_default.
    rram_pulse_s: float = 50e-9

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InputError(f"evaluator.tiled_physical.constants.{field.name}={value!r} must be a number > 0")


def from_plain(kind: type[Record], section: str, given: Mapping[str, Any], *, switches: bool = False) -> Record:
    """A record from a config section; an unknown key or a switch that is no boolean is an `InputError`."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key, value in given.items():
        if key not in known:
            raise unknown_name(f"key in {section}", key, known)
        if switches and not isinstance(value, bool):
            raise InputError(f"{section}.{key}={value!r} must be true or false")
    return kind(**given)
