"""Energy and area of the parts of an in-memory-computing chip, as tables with their sources."""

from cimopt_components.adc import AdcResolution, adc_resolution, checked_bits, needed_bits
from cimopt_components.component_sets import ComponentSet, component_set, set_names
from cimopt_components.tables import (
    CORNERS,
    ArrayCosts,
    BufferCosts,
    ComponentTables,
    RouterCosts,
    bilinear_coefficients,
)

__version__ = "0.1.0"

__all__ = [
    "CORNERS",
    "AdcResolution",
    "ArrayCosts",
    "BufferCosts",
    "ComponentSet",
    "ComponentTables",
    "RouterCosts",
    "adc_resolution",
    "bilinear_coefficients",
    "checked_bits",
    "component_set",
    "needed_bits",
    "set_names",
]
