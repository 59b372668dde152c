"""Compact profiles: distributions or totals of op cycles instead of activations, a few kilobytes per network.

They are made from a full profile for one array height and one number of rows per read, and serve any array width,
converter sharing, chip size and policy. They do not tell what was seen: no activation can be recovered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cimopt.errors import InputError, unknown_name
from cimopt.types import Layer, Workload, fingerprint
from cimopt_zeroskip.mapping import ArraySpec, MappedLayer, map_layer
from cimopt_zeroskip.profile import FORMAT, FORMAT_VERSION, Profile, layer_of, layer_values, same_shape, write_npz
from cimopt_zeroskip.work import Histogram, LayerWork, TotalsWork, TraceWork, trace_work, uniform_work

FORMS = ("histogram", "totals")
# What a summary is tied to; cycles are kept for one column and scale with the columns that share a converter.
FIXED = ("xbar_rows", "rows_per_read", "floor", "grouped_policy", "row_order", "input_bits")
# Names in files of earlier programs, and what they are called now.
OLD_KEYS = {"groups": "grouped_policy"}
OLD_VALUES = {"one_group": "one_group_per_array"}


@dataclass(frozen=True)
class SummaryProfile:
    """Op cycles of a network, summed up.

    Attributes:
        name, layers, provenance: as in `Profile`.
        form: "histogram" (values and counts too) or "totals".
        spec: the array it was made for (`FIXED` settings; one column).
        numbers: per layer: block_total ``(blocks,)``, sync_total, ones ``(blocks,)`` per image; for histograms
            values ``(v,)``, counts ``(blocks, v)``, sync ``(v,)`` over all images.
        n_images: images behind it.
    """

    name: str
    layers: tuple[Layer, ...]
    form: str
    spec: ArraySpec
    numbers: tuple[Mapping[str, np.ndarray], ...]
    n_images: int = 1
    provenance: Mapping[str, Any] = field(default_factory=dict)
    synthetic = False

    @property
    def workload(self) -> Workload:
        """The profiled network as a workload."""
        return Workload(self.name, self.layers, source=str(self.provenance.get("network", "")))

    @property
    def fingerprint(self) -> str:
        return fingerprint([self.name, self.form, vars(self.spec), [n["block_total"].tolist() for n in self.numbers]])

    def find(self, layer: Layer, taken: set[int]) -> int:
        """As `Profile.find`."""
        return same_shape(self.name, self.layers, layer, taken)

    def work(self, index: int, mapped: MappedLayer, fidelity: str) -> LayerWork:
        """A layer's work; refused for arrays or fidelities that the summary does not hold."""
        for key in FIXED:
            if getattr(mapped.spec, key) != getattr(self.spec, key):
                wanted, have = getattr(mapped.spec, key), getattr(self.spec, key)
                raise InputError(
                    f"profile '{self.name}' was summed up for {key}={have}; {key}={wanted} needs the full profile"
                )
        if fidelity == "trace" or (fidelity == "histogram" and self.form == "totals"):
            raise InputError(
                f"profile '{self.name}' holds {self.form} only: evaluator.zeroskip.fidelity={self.form}, not {fidelity}"
            )
        columns, numbers = mapped.spec.cols_per_adc, self.numbers[index]
        if not mapped.spec.skip:
            return uniform_work(mapped, numbers["ones"])
        if fidelity == "totals":
            total, sync = numbers["block_total"] * columns, float(numbers["sync_total"]) * columns
            return TotalsWork(mapped, total, sync, numbers["ones"])
        values = numbers["values"] * columns
        return Histogram(mapped, values, numbers["counts"], numbers["sync"], numbers["ones"], self.n_images).work()


def summarise(profile: Profile, spec: ArraySpec, form: str) -> SummaryProfile:
    """Sum a full profile up for one kind of array, over all its images."""
    if form not in FORMS:
        raise unknown_name("form of a profile", form, FORMS)
    one = replace(spec, cols_per_adc=1, skip=True)
    numbers = []
    for i, profiled in enumerate(profile.layers):
        work = trace_work(profile, i, map_layer(profiled.layer, one), list(range(profile.n_images)))
        numbers.append(_numbers(work, form))
    layers = tuple(p.layer for p in profile.layers)
    return SummaryProfile(profile.name, layers, form, one, tuple(numbers), profile.n_images, profile.provenance)


def _numbers(work: TraceWork, form: str) -> dict[str, np.ndarray]:
    found = {"block_total": work.block_total, "sync_total": np.array(work.sync_total), "ones": work.ones}
    if form == "histogram":
        drawn = work.histogram()
        found |= {"values": drawn.values, "counts": drawn.counts, "sync": drawn.sync}
    return found


def save_summary(summary: SummaryProfile, path: str | os.PathLike[str]) -> None:
    """Write a compact profile."""
    meta = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "form": summary.form,
        "name": summary.name,
        "n_images": summary.n_images,
        "array": {key: getattr(summary.spec, key) for key in FIXED},
        "provenance": dict(summary.provenance),
        "layers": [layer_values(layer) for layer in summary.layers],
    }
    arrays = {f"s/{i:04d}/{key}": value for i, one in enumerate(summary.numbers) for key, value in one.items()}
    write_npz(path, {"meta": np.array(json.dumps(meta)), **arrays})


def summary_from(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SummaryProfile:
    """Build from a file's parts; `cimopt_zeroskip.profile.load` calls this."""
    layers = tuple(replace(layer_of(given), activation_bits=meta["array"]["input_bits"]) for given in meta["layers"])
    numbers = tuple(
        {key.split("/")[2]: value for key, value in arrays.items() if key.startswith(f"s/{i:04d}/")}
        for i in range(len(layers))
    )
    array = {OLD_KEYS.get(key, key): OLD_VALUES.get(value, value) for key, value in meta["array"].items()}
    spec = ArraySpec(**array, cols_per_adc=1)
    return SummaryProfile(meta["name"], layers, meta["form"], spec, numbers, meta["n_images"], meta["provenance"])
