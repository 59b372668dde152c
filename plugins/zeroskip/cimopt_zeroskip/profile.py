"""Activation profiles: the quantised inputs of every layer of a network on real images, in order.

A file is an npz (version 1) with a JSON text ``meta`` and one uint8 or uint16 map ``(images, h, w, c)`` per
distinct tensor; layers that share an input share the tensor. From it follow the ones for any array height,
rows per read and row order, counted once and kept.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.errors import InputError
from cimopt.types import Layer, Workload, fingerprint
from cimopt_zeroskip.bits import count_ones
from cimopt_zeroskip.mapping import MappedLayer, check_map, padded, patch_bases, row_offsets

FORMAT = "cimopt-zeroskip-profile"
FORMAT_VERSION = 1
_PAIRS = ("kernel", "stride", "padding", "dilation", "out_map")
# Statistics of other models do not belong into a profile; widths are the profile's own and the evaluator's.
_NOT_KEPT = ("repeats", "mean_input", "mean_weight_slice", "weight_bits", "activation_bits")
_LAYER_KEYS = tuple(f.name for f in fields(Layer) if f.name not in _NOT_KEPT)


@dataclass(frozen=True)
class ProfiledLayer:
    """One layer and where its inputs are: tensor name, code of the value 0, value of one step."""

    layer: Layer
    tensor: str
    zero_point: int = 0
    step: float = 1.0


@dataclass
class Profile:
    """A network's layers with their quantised inputs.

    Attributes:
        name: network's name.
        layers: in order, their activations as wide as the profile's codes.
        tensors: name -> ``(images, h, w, c)``, unsigned.
        input_bits: bits of a value.
        provenance: where network and images come from, licences, quantisation.
    """

    name: str
    layers: tuple[ProfiledLayer, ...]
    tensors: Mapping[str, np.ndarray]
    input_bits: int = 8
    provenance: Mapping[str, Any] = field(default_factory=dict)
    synthetic = False

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError(f"profile '{self.name}' has no layers")
        for one in self.layers:
            if one.tensor not in self.tensors:
                raise InputError(
                    f"profile '{self.name}': layer '{one.layer.name}' names the absent tensor '{one.tensor}'"
                )
        if len({len(t) for t in self.tensors.values()}) != 1:
            raise InputError(f"profile '{self.name}': tensors hold different numbers of images")
        self.layers = tuple(replace(p, layer=replace(p.layer, activation_bits=self.input_bits)) for p in self.layers)
        self._counts: dict[tuple[int, int, str, bytes], np.ndarray] = {}

    @property
    def n_images(self) -> int:
        return len(next(iter(self.tensors.values())))

    @property
    def workload(self) -> Workload:
        """The profiled network as a workload."""
        return Workload(self.name, tuple(p.layer for p in self.layers), source=str(self.provenance.get("network", "")))

    def find(self, layer: Layer, taken: set[int]) -> int:
        """Index of a workload's layer: by name and shape, else the first unused of the same shape."""
        return same_shape(self.name, tuple(p.layer for p in self.layers), layer, taken)

    def counts(self, index: int, mapped: MappedLayer, image: int) -> np.ndarray:
        """Ones of one image's patches, int16 ``(patches, blocks, input_bits)``; counted once and kept."""
        key = (index, image, mapped.spec.row_order, mapped.bounds.tobytes())
        if key not in self._counts:
            self._counts[key] = self._count(self.layers[index], mapped, image)
        return self._counts[key]

    def _count(self, one: ProfiledLayer, mapped: MappedLayer, image: int, compiled: bool = True) -> np.ndarray:
        full = padded(self.tensors[one.tensor][image], one.layer, one.zero_point)
        check_map(full, one.layer)
        bases = patch_bases(one.layer, full.shape[1])
        offsets = row_offsets(one.layer, full.shape[1], mapped.spec.row_order)
        flat = np.ascontiguousarray(full).reshape(-1)
        return count_ones(flat, bases, offsets, mapped.bounds, self.input_bits, compiled=compiled)

    def forget(self) -> None:
        """Drop the kept counts."""
        self._counts.clear()

    @property
    def fingerprint(self) -> str:
        """Content of the profile, for cache keys."""
        sums = {k: fingerprint([t.shape, int(np.sum(t, dtype=np.int64)), t[..., :1].tobytes().hex()[:4096]])
                for k, t in self.tensors.items()}  # fmt: skip
        return fingerprint([self.name, sums, [asdict(p) for p in self.layers], self.input_bits])


def _shape(layer: Layer) -> tuple:
    """What decides a layer's patches; a linear layer on one position equals a 1x1 convolution."""
    return (layer.in_channels, layer.out_channels, layer.groups, *(getattr(layer, k) for k in _PAIRS))


def same_shape(name: str, layers: Sequence[Layer], layer: Layer, taken: set[int]) -> int:
    """Index of the profiled layer of the same name and shape, else of the first unused of the same shape."""
    fits = [i for i, one in enumerate(layers) if _shape(one) == _shape(layer)]
    named = [i for i in fits if layers[i].name == layer.name]
    free = [i for i in fits if i not in taken]
    if named or free:
        return (named or free)[0]
    raise InputError(
        f"profile '{name}' has no layer of the shape of '{layer.name}' "
        f"({layer.in_channels} to {layer.out_channels} channels, kernel {layer.kernel}, output {layer.out_map})"
    )


def save(profile: Profile, path: str | os.PathLike[str], *, small: bool = False) -> None:
    """Write a profile; ``small`` packs with LZMA (slower to read) instead of deflate."""
    arrays = {f"t/{name}": tensor for name, tensor in profile.tensors.items()}
    write_npz(path, {"meta": np.array(json.dumps(_meta(profile))), **arrays}, small=small)


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], *, small: bool = False) -> None:
    """An npz whose bytes depend on its content only."""
    method = zipfile.ZIP_LZMA if small else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w", method) as file:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
            # A fixed date: the same profile is the same file.
            file.writestr(zipfile.ZipInfo(f"{name}.npy", (2020, 1, 1, 0, 0, 0)), buffer.getvalue(), method)


def _meta(profile: Profile) -> dict[str, Any]:
    layers = [
        {"tensor": p.tensor, "zero_point": p.zero_point, "step": p.step, "layer": layer_values(p.layer)}
        for p in profile.layers
    ]
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "name": profile.name,
        "input_bits": profile.input_bits,
        "provenance": dict(profile.provenance),
        "layers": layers,
    }


def layer_values(layer: Layer) -> dict[str, Any]:
    """A layer's shape as plain values."""
    return {k: getattr(layer, k) for k in _LAYER_KEYS}


def layer_of(given: Mapping[str, Any]) -> Layer:
    """The inverse of `layer_values`."""
    return Layer(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})


def load(path: str | os.PathLike[str]) -> Profile:
    """Read a profile, full or summed up (`cimopt_zeroskip.summary`); a file that is none is refused with its name."""
    try:
        with np.load(path, allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
            arrays = {key: file[key] for key in file.files if key != "meta"}
    except FileNotFoundError as error:
        raise InputError(f"there is no profile {path}") from error
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is no activation profile ({error}); make one with: cimopt profile MODEL.onnx --images DIR"
        ) from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise InputError(f"{path} is no activation profile (its meta names no {FORMAT})")
    if meta["version"] != FORMAT_VERSION:
        raise InputError(f"{path} is a profile of version {meta['version']}; this program reads {FORMAT_VERSION}")
    if meta.get("form", "activations") != "activations":
        from cimopt_zeroskip.summary import summary_from

        return summary_from(meta, arrays)
    layers = tuple(
        ProfiledLayer(layer_of(one["layer"]), one["tensor"], one["zero_point"], one["step"]) for one in meta["layers"]
    )
    tensors = {key[2:]: value for key, value in arrays.items()}
    return Profile(meta["name"], layers, tensors, meta["input_bits"], meta["provenance"])


def shipped() -> tuple[str, ...]:
    """Names of the profiles that come with the package."""
    return tuple(sorted(p.stem for p in _data().glob("*.npz")))


def load_shipped(name: str) -> Profile:
    """A profile that comes with the package."""
    from cimopt.errors import unknown_name

    if name not in shipped():
        raise unknown_name("profile", name, shipped())
    return load(_data() / f"{name}.npz")


def _data() -> Path:
    return Path(__file__).with_name("data")
