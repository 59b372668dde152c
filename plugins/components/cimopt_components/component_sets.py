"""Component sets: which parts a macro is built from, as data files (``data/sets/*.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

from cimopt.errors import unknown_name
from cimopt_components.tables import J_PER_PJ, MM2_PER_UM2


@dataclass(frozen=True)
class ComponentSet:
    """Parts of one macro.

    Attributes:
        name, source: what it is and where it comes from.
        nodes_nm: nodes at which it is known; None: wherever the tables are.
        adc_from_tables: converters are the tables' 5-bit ones scaled to the resolution, else absolute.
        dac_j, dac_mm2: energy of one row's one-bit step and area of one row's driver; None: the tables'.
        shift_add_j, shift_add_mm2: one shift-and-add and its area, at 32 nm.
        defaults: `adc_bits`, `cols_per_adc`, `rows_per_read`.
    """

    name: str
    source: str
    nodes_nm: tuple[int, ...] | None
    adc_from_tables: bool
    dac_j: float | None
    dac_mm2: float | None
    shift_add_j: float
    shift_add_mm2: float
    defaults: Mapping[str, int]


def set_names() -> tuple[str, ...]:
    """Names of the shipped sets, sorted."""
    folder = files("cimopt_components") / "data" / "sets"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


@cache
def component_set(name: str) -> ComponentSet:
    """A shipped set; raises `InputError` for an unknown name."""
    if name not in set_names():
        raise unknown_name("component set", name, set_names())
    plain = yaml.safe_load((files("cimopt_components") / "data" / "sets" / f"{name}.yaml").read_text("utf-8"))
    dac = plain["dac"] if plain["dac"]["kind"] == "absolute" else None
    return ComponentSet(
        name=plain["name"],
        source=plain["source"],
        nodes_nm=plain["nodes_nm"] and tuple(plain["nodes_nm"]),
        adc_from_tables=plain["adc"]["kind"] == "tables",
        dac_j=dac and dac["energy_pj"] * J_PER_PJ,
        dac_mm2=dac and dac["area_um2"] * MM2_PER_UM2,
        shift_add_j=plain["shift_add"]["energy_pj"] * J_PER_PJ,
        shift_add_mm2=plain["shift_add"]["area_um2"] * MM2_PER_UM2,
        defaults={k: v for k, v in plain["defaults"].items() if k != "source"},
    )
