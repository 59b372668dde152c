"""Runs an ONNX network on images and keeps the quantised input of every layer with weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.errors import InputError, MissingExtraError
from cimopt_zeroskip.profile import Profile, ProfiledLayer
from cimopt_zeroskip.profiling.onnx_layers import WeightedNode, to_layer, weighted_nodes
from cimopt_zeroskip.profiling.quantise import quantise


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("profiling an ONNX network", "onnx") from error
    return onnx, onnxruntime


def read_model(path: Path) -> Any:
    """The ONNX model; a file that is none is refused."""
    onnx, _ = _libraries()
    if not path.is_file():
        raise InputError(f"there is no model {path}")
    try:
        return onnx.load(str(path))
    except Exception as error:  # protobuf's own kinds of errors
        raise InputError(f"{path} cannot be read as an ONNX model ({str(error).splitlines()[0][:120]})") from error


def input_shape(model: Any) -> list[int | None]:
    """Dimensions of the network's one image input; None where the model leaves them open."""
    stored = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in stored]
    if len(inputs) != 1:
        raise InputError(
            f"the model has {len(inputs)} inputs ({', '.join(i.name for i in inputs)}); one image input is needed"
        )
    dims = inputs[0].type.tensor_type.shape.dim
    if len(dims) != 4:
        raise InputError(f"the model's input '{inputs[0].name}' has {len(dims)} dimensions; an image batch has 4")
    return [d.dim_value or None for d in dims]


def profile_model(
    model: Any,
    batch: np.ndarray,
    *,
    name: str,
    bits: int = 8,
    percentile: float = 100.0,
    keep: Sequence[str] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Profile:
    """Profile of a model on a prepared batch (images first); ``keep`` limits it to layers by name.

    Images run one by one, with onnxruntime's optimisations off, so that every layer's input exists.
    """
    nodes, left_out = weighted_nodes(model)
    if keep is not None:
        nodes = [n for n in nodes if n.name in set(keep)]
    if not nodes:
        raise InputError(f"the model '{name}' has no convolution or linear layer with stored weights")
    values = _run(model, batch, nodes)
    layers, tensors, names = [], {}, {}
    for node in nodes:
        layer, maps = to_layer(node, values[node.tensor])
        key = (node.tensor, maps.shape)
        if key not in names:  # layers that share an input share the codes
            names[key] = f"{len(names):03d}"
            tensors[names[key]] = quantise(maps, bits, percentile)
        codes = tensors[names[key]]
        layers.append(ProfiledLayer(layer, names[key], codes.zero_point, codes.step))
    notes = dict(provenance or {}) | {
        "quantisation": f"unsigned {bits} bits, scale: percentile {percentile:g} per tensor"
    }
    if left_out:
        notes["left_out"] = left_out
    return Profile(name, tuple(layers), {k: c.values for k, c in tensors.items()}, bits, notes)


def _run(model: Any, batch: np.ndarray, nodes: Sequence[WeightedNode]) -> dict[str, np.ndarray]:
    """Inputs of the nodes, tensor name -> float32 with images first."""
    onnx, runtime = _libraries()
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    entry = next(i.name for i in probed.graph.input if i.name not in {w.name for w in probed.graph.initializer})
    wanted = list(dict.fromkeys(n.tensor for n in nodes))
    probed.graph.ClearField("output")
    probed.graph.output.extend(onnx.ValueInfoProto(name=t) for t in wanted if t != entry)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = runtime.InferenceSession(probed.SerializeToString(), options, providers=["CPUExecutionProvider"])
        asked = [t for t in wanted if t != entry]
        per_image = [session.run(asked, {entry: image[None]}) for image in batch]
    except Exception as error:  # onnxruntime raises its own kinds
        raise InputError(f"onnxruntime cannot run the model: {str(error).splitlines()[0]}") from error
    values = {t: np.concatenate([run[i] for run in per_image]) for i, t in enumerate(asked)}
    return values | {entry: batch}


def sha256(path: Path) -> str:
    """Content hash of a file, for provenance."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
