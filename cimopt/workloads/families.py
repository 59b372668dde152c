"""Parametrised workloads: a family name and parameters give a network.

In a configuration: `workload.mine: {family: llama, params: {layers: 32, ...}}`. Blocks that repeat
are one set of layers with a repeat count, so a model costs as much to evaluate as one of its blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cimopt.errors import InputError, unknown_name
from cimopt.types import Workload
from cimopt.workloads import llama

FAMILIES: dict[str, Callable[[str, Mapping[str, object]], Workload]] = {"llama": llama.build}


def build(family: object, params: object, name: str) -> Workload:
    """The network called `name`; unknown families and parameters are refused."""
    if family not in FAMILIES:
        raise unknown_name("workload family", family, FAMILIES)
    if not isinstance(params, Mapping):
        raise InputError(f"workload.{name}.params must be 'name: value' pairs, got {type(params).__name__}")
    return FAMILIES[family](name, params)
