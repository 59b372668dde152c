"""Networks as ordered layers: our zoo, the published layers, and people's own YAML files.

`load("resnet18")`, `load("resnet18", source="published")`, `load("./mine.yaml")`.
"""

from cimopt.workloads.loader import SOURCES, load, load_entries, names, networks_of
from cimopt.workloads.totals import LayerTotals, format_table, layer_totals
from cimopt.workloads.writer import to_yaml

__all__ = [
    "SOURCES",
    "LayerTotals",
    "format_table",
    "layer_totals",
    "load",
    "load_entries",
    "names",
    "networks_of",
    "to_yaml",
]
