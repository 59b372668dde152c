"""Walks an ONNX graph in order and gives each tensor its shape, and small constants their values.

ONNX's own inference does one node at a time, so a fault is always that node's, and shapes that are
themselves computed (Shape, Gather, Concat, ... Reshape) are numbers by the time they are needed.
Weights are never read: only shapes, and constants of at most `SMALL` values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cimopt.errors import InputError
from cimopt.workloads.importers.onnx_names import FOLDED
from cimopt.workloads.importers.options import MAX_SIZE, short

SMALL = 4096  # values; more is a weight, not a shape
MAX_RANK = 32


@dataclass
class Tensors:
    """What is known of the tensors of a graph, by name.

    `types` are ONNX TypeProtos. A name in `constants` does not depend on the network's inputs;
    `values` holds the TensorProtos of those that are small.
    """

    types: dict[str, Any] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)
    values: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def dims(self, name: str) -> tuple[int | None, ...] | None:
        """Sides of a tensor, None for an unknown one; None when not even the rank is known."""
        kind = self.types.get(name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        return tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.tensor_type.shape.dim)

    def shape(self, name: str, spot: str) -> tuple[int, ...]:
        """Sides of a tensor, all known and >= 1; else an error naming the node (`spot`) and the side."""
        dims = self.dims(name)
        if dims is None:
            raise InputError(
                f"{spot}: the shape of '{name}' is unknown; bind the graph's dimensions (--bind NAME=SIZE)"
            )
        for axis, size in enumerate(dims):
            if size is None:
                raise InputError(f"{spot}: side {axis} of '{name}' is unknown (shape {_shown(dims)}); --bind NAME=SIZE")
            if not 1 <= size < MAX_SIZE:
                raise InputError(f"{spot}: side {axis} of '{name}' is {size} (shape {_shown(dims)})")
        return dims

    def is_constant(self, name: str) -> bool:
        return not name or name in self.constants


def _shown(dims: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in dims[:MAX_RANK]) + "]"


def spot_of(node: Any, position: int) -> str:
    """How errors call a node: its operator, its name or its first output, its place in the file."""
    name = node.name or next((o for o in node.output if o), "")
    return f"{node.op_type[:60] or 'node'} '{name[:120]}' (node {position})"


def add_initialiser(tensors: Tensors, tensor: Any, folder: Path) -> None:
    """A stored tensor: its shape, and its values when small."""
    import onnx

    if len(tensor.dims) > MAX_RANK or any(d < 0 for d in tensor.dims):
        raise InputError(f"initialiser '{tensor.name[:120]}' has an impossible shape {list(tensor.dims)[:MAX_RANK]}")
    try:
        kind = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"initialiser '{tensor.name[:120]}' cannot be read: {error}") from None
    tensors.types[tensor.name] = kind
    tensors.constants.add(tensor.name)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        tensor = _small_external(tensor, folder)
    if tensor is not None and _count(tensor.dims) <= SMALL and _holds_values(tensor):
        tensors.values[tensor.name] = tensor


def _count(dims: Any) -> int:
    total = 1
    for d in dims:
        total *= d
    return total


def _holds_values(tensor: Any) -> bool:
    """Whether the stored values fit the stated shape: files with stripped weights hold none."""
    from onnx import numpy_helper

    try:
        return list(numpy_helper.to_array(tensor).shape) == list(tensor.dims)
    except Exception:  # whatever is wrong with it, it is no usable constant
        return False


def _small_external(tensor: Any, folder: Path) -> Any | None:
    """A tensor stored in a file beside the model; None when it is large or not there.

    The file must lie in the model's folder: a model could name any file of the computer.
    """
    import onnx

    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    path = safe_external(folder, location, tensor.name)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
        if not 0 <= length <= 8 * SMALL or offset < 0 or not path.is_file():
            return None
        with path.open("rb") as file:
            file.seek(offset)
            raw = file.read(length)
    except (OSError, ValueError, OverflowError):
        return None
    inline = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=list(tensor.dims), raw_data=raw)
    return inline


def safe_external(folder: Path, location: str, name: str) -> Path:
    """Path of an external data file; outside the model's folder it is refused."""
    root = folder.resolve()
    try:
        path = (root / location).resolve()
    except (OSError, ValueError, RuntimeError):
        path = None
    if not location or path is None or not path.is_relative_to(root):
        raise InputError(
            f"initialiser '{name[:120]}' is stored in {short(location)}, outside the model's folder: refused"
        )
    return path


def infer_outputs(
    tensors: Tensors, node: Any, spot: str, opsets: Mapping[str, int], declared: Mapping[str, Any]
) -> None:
    """Give the outputs of one node their types; sides that cannot be known stay unknown."""

    for name in node.input:
        if name and name not in tensors.types:
            raise InputError(f"{spot}: its input '{name[:120]}' comes from nowhere")
    outputs: Mapping[str, Any] = {}
    schema = _schema(node, opsets)
    if schema is not None:
        outputs = _inferred(tensors, schema, node, spot, opsets)
    for name in node.output:
        if name:
            tensors.types[name] = _better(outputs.get(name), declared.get(name))
    if all(tensors.is_constant(name) for name in node.input):
        tensors.constants.update(name for name in node.output if name)
    _fold(tensors, node, opsets)


def _inferred(tensors: Tensors, schema: Any, node: Any, spot: str, opsets: Mapping[str, int]) -> Mapping[str, Any]:
    """ONNX's inference; where it refuses a node, once more without what has no say in shapes.

    Public files hold attributes that an operator does not have, and 8-bit weights where only floats are
    allowed. Neither changes a shape; both are noted.
    """
    import onnx

    types = {name: tensors.types[name] for name in node.input if name}
    known = {name: tensors.values[name] for name in node.input if name in tensors.values}
    infer = onnx.shape_inference.infer_node_outputs
    try:
        return infer(schema, node, types, known, opset_imports=_imports(opsets))
    except Exception as error:
        # The binding raises several kinds: all say that the node contradicts its inputs.
        reason = " ".join(str(error).split())[:300]
    plain, foreign = _plain(node, schema)
    # Whole numbers are sides and axes: inference reads them, so they stay.
    known = {name: value for name, value in known.items() if value.data_type == onnx.TensorProto.INT64}
    floats = {name: kind if name in known else _as_float(kind) for name, kind in types.items()}
    try:
        found = infer(schema, plain, floats, known, opset_imports=_imports(opsets))
    except Exception:
        raise InputError(f"{spot}: {reason}") from None
    what = (
        f"attributes not of this operator are not read: {', '.join(foreign)}"
        if foreign
        else "its element types are not those of ONNX"
    )
    tensors.notes.setdefault(f"{node.op_type}: {what}; shapes are used as they are", None)
    return found


def _plain(node: Any, schema: Any) -> tuple[Any, list[str]]:
    """The node without attributes that its operator does not have, and their names."""
    import onnx

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(a for a in node.attribute if a.name in schema.attributes)
    return copy, [a.name[:60] for a in node.attribute if a.name not in schema.attributes][:10]


def _as_float(kind: Any) -> Any:
    import onnx

    copy = onnx.TypeProto()
    copy.CopyFrom(kind)
    if copy.HasField("tensor_type"):
        copy.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return copy


def _imports(opsets: Mapping[str, int]) -> list[Any]:
    import onnx

    return [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]


def _schema(node: Any, opsets: Mapping[str, int]) -> Any | None:
    import onnx

    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain not in opsets:
        return None
    try:
        return onnx.defs.get_schema(node.op_type, opsets[domain], domain)
    except onnx.defs.SchemaError:
        return None


def _better(inferred: Any | None, declared: Any | None) -> Any:
    """The inferred type, or the one the file declares where nothing was inferred."""
    import onnx

    if inferred is not None and inferred.HasField("tensor_type") and inferred.tensor_type.HasField("shape"):
        return inferred
    if declared is not None and inferred is not None and not declared.HasField("tensor_type"):
        return inferred
    return declared if declared is not None else inferred if inferred is not None else onnx.TypeProto()


def _fold(tensors: Tensors, node: Any, opsets: Mapping[str, int]) -> None:
    """Work out small outputs whose inputs are known."""
    import onnx

    if node.op_type == "Constant":
        _fold_constant(tensors, node)
        return
    if node.op_type in ("Shape", "Size") and node.domain in ("", "ai.onnx"):
        dims = tensors.dims(node.input[0]) if len(node.input) == 1 else None
        if dims is not None and None not in dims and len(dims) <= MAX_RANK and len(node.output) == 1:
            _fold_shape(tensors, node, dims)
        return
    if node.op_type not in FOLDED or node.domain not in ("", "ai.onnx") or not node.input:
        return
    if any(name and name not in tensors.values for name in node.input):
        return
    if not all(_is_small(tensors.dims(name)) for name in node.output if name):
        return
    feeds = {name: onnx.numpy_helper.to_array(tensors.values[name]) for name in node.input if name}
    for name, value in _evaluated(node, feeds, opsets).items():
        tensors.values[name] = onnx.numpy_helper.from_array(value, name)
        tensors.types[name] = onnx.helper.make_tensor_type_proto(tensors.values[name].data_type, list(value.shape))
        tensors.constants.add(name)


def _is_small(dims: tuple[int | None, ...] | None) -> bool:
    """Whether an output may be computed; what is not known to be small is not."""
    return dims is not None and None not in dims and _count(dims) <= SMALL


def _fold_constant(tensors: Tensors, node: Any) -> None:
    output = node.output[0] if node.output else ""
    for attribute in node.attribute:
        if attribute.name == "value" and output and _count(attribute.t.dims) <= SMALL and _holds_values(attribute.t):
            tensors.values[output] = attribute.t
        elif attribute.name in ("value_int", "value_ints") and output:
            _store(tensors, output, list(attribute.ints) if attribute.name == "value_ints" else attribute.i)


def _fold_shape(tensors: Tensors, node: Any, dims: tuple[int, ...]) -> None:
    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type == "Size":
        _store(tensors, node.output[0], min(_count(dims), 2**62))
    else:
        _store(tensors, node.output[0], list(dims)[attributes.get("start", 0) : attributes.get("end", MAX_RANK)])


def _store(tensors: Tensors, name: str, numbers: list[int] | int) -> None:
    import numpy as np
    import onnx

    if isinstance(numbers, int) or len(numbers) <= SMALL:
        tensors.values[name] = onnx.numpy_helper.from_array(np.array(numbers, dtype=np.int64), name)
        tensors.constants.add(name)


def _evaluated(node: Any, feeds: Mapping[str, Any], opsets: Mapping[str, int]) -> dict[str, Any]:
    """Outputs of one node on small arrays by ONNX's reference implementation; {} when it cannot."""
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator

    helper = onnx.helper
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), None) for n, v in feeds.items()
    ]
    names = [name for name in node.output if name]
    outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in names]
    graph = helper.make_graph([node], "one", inputs, outputs)
    try:
        model = helper.make_model(graph, opset_imports=_imports({"": opsets.get("", 1)}))
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception:  # a constant that cannot be worked out stays unknown; its user will say so
        return {}
    arrays = {n: np.asarray(v) for n, v in zip(names, found, strict=True)}
    return {n: v for n, v in arrays.items() if v.size <= SMALL and v.dtype.kind in "biuf"}
