"""Energy and area of the parts of an in-memory-computing chip, as tables with their sources."""

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
    "ArrayCosts",
    "BufferCosts",
    "ComponentTables",
    "RouterCosts",
    "bilinear_coefficients",
]
