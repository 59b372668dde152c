"""The words every room shares: parameters, designs, layers, workloads, metrics, outcomes.

Nothing here computes hardware: these are frozen records that cannot be built in a
wrong state. Arrays are NumPy; `n` is the number of designs, `w` of workloads.
"""

from cimopt.types.common import Value, fingerprint
from cimopt.types.designs import LEVELS, Designs, Parameter, ParameterSet
from cimopt.types.metrics import DETAILS, Detail, LayerTable, Limit, Metrics, Outcome
from cimopt.types.workloads import DEFAULT_BITS, LAYER_KINDS, MAX_BITS, MAX_BITS_PER_CELL, Layer, Workload

__all__ = [
    "DEFAULT_BITS",
    "DETAILS",
    "LAYER_KINDS",
    "LEVELS",
    "MAX_BITS",
    "MAX_BITS_PER_CELL",
    "Designs",
    "Detail",
    "Layer",
    "LayerTable",
    "Limit",
    "Metrics",
    "Outcome",
    "Parameter",
    "ParameterSet",
    "Value",
    "Workload",
    "fingerprint",
]
