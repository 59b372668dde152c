"""ONNX models: layers from the graph, shapes by inference, weights never read.

Everything that multiplies and accumulates becomes a layer or an error naming its node; operators
without multiply-accumulates are counted under `ignored`; what only depends on constants is folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cimopt.errors import InputError, unknown_name
from cimopt.types import Layer, Workload
from cimopt.workloads.importers.onnx_file import MAX_NODES, inlined, load_model, makers_of
from cimopt.workloads.importers.onnx_layers import Site, converter
from cimopt.workloads.importers.onnx_names import ELSEWHERE_NO_MACS, NO_MACS, UNSUPPORTED, WEIGHT_AT
from cimopt.workloads.importers.onnx_plain import SCALED, plain
from cimopt.workloads.importers.onnx_shapes import Tensors, add_initialiser, infer_outputs, safe_external, spot_of
from cimopt.workloads.importers.options import MAX_SIZE, Imported, Names, Options, counted

MAX_NESTING = 8  # graphs inside graphs
_WEIGHT_NAME = re.compile(r"^w|weight|kernel|filter|proj", re.I)


@dataclass
class _Walk:
    """State of one walk through a graph."""

    options: Options
    opsets: Mapping[str, int]
    declared: Mapping[str, Any]
    makers: dict[str, str]  # operator, as the file calls it, of each tensor
    tensors: Tensors = field(default_factory=Tensors)
    names: Names = field(default_factory=Names)
    layers: list[Layer] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    image_batch: int | None = None
    position: int = 0


def read(path: Path, options: Options) -> Imported:
    """The layers of one model file."""
    model, makers = inlined(load_model(path), path)
    graph = model.graph
    if len(graph.node) > MAX_NODES:
        raise InputError(f"{path}: {len(graph.node)} nodes; at most {MAX_NODES} are read")
    walk = _Walk(
        options,
        _opsets(model),
        _declared(graph),
        makers,
    )
    try:
        inputs = _start(walk, graph, path.parent)
        _nodes(walk, graph.node, path.parent, 0)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not walk.layers:
        raise InputError(
            f"{path}: no layer with multiply-accumulates (ignored: {', '.join(sorted(set(walk.ignored))[:20])})"
        )
    workload = Workload(
        name=options.name or path.stem or "onnx",
        layers=tuple(walk.layers),
        variant="imported",
        source=f"ONNX model {path.name}",
        input_shape=inputs,
    )
    return Imported(workload, "onnx", counted(walk.ignored), (*walk.notes, *walk.tensors.notes), tuple(walk.warnings))


def _opsets(model: Any) -> dict[str, int]:
    """Version of each operator set; files older than the field itself are of version 1."""
    return {"": 1} | {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}


def _declared(graph: Any) -> dict[str, Any]:
    """Types that the file states for inner tensors and outputs; for operators that nobody can infer."""
    return {v.name: v.type for v in (*graph.value_info, *graph.output) if v.HasField("type")}


# --------------------------------------------------------------- inputs
def _start(walk: _Walk, graph: Any, folder: Path) -> tuple[int, ...] | None:
    """Take in initialisers and inputs; gives the shape of the first input without its batch."""
    for tensor in graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                safe_external(folder, entry.value, tensor.name)
        add_initialiser(walk.tensors, tensor, folder)
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        walk.tensors.types[name] = _dense_type(sparse)
        walk.tensors.constants.add(name)
    inputs = [v for v in graph.input if v.name not in walk.tensors.types]
    symbols = _symbols(inputs)
    for name in walk.options.bind:
        if name not in symbols:
            raise unknown_name("dimension in --bind", name, symbols)
    for value in inputs:
        walk.tensors.types[value.name] = _bound(walk, value)
    _weights_among(walk, inputs, graph)
    first = walk.tensors.dims(inputs[0].name) if inputs else None
    if first and len(first) >= 3 and None not in first:
        walk.image_batch = first[0]
    shape = (first[1:] if first and len(first) > 2 else first) or None
    return shape if shape and all(d is not None and 1 <= d < MAX_SIZE for d in shape) else None


def _dense_type(sparse: Any) -> Any:
    import onnx

    try:
        return onnx.helper.make_tensor_type_proto(sparse.values.data_type, list(sparse.dims))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"sparse initialiser '{sparse.values.name[:120]}' cannot be read: {error}") from None


def _symbols(inputs: Iterable[Any]) -> list[str]:
    return [
        _symbol(v, i) for v in inputs for i, d in enumerate(v.type.tensor_type.shape.dim) if not d.HasField("dim_value")
    ]


def _symbol(value: Any, axis: int) -> str:
    """How an open dimension is called: its own name, or made of the input's name and the axis."""
    return value.type.tensor_type.shape.dim[axis].dim_param or f"{value.name}.{axis}"


def _bound(walk: _Walk, value: Any) -> Any:
    """Type of one input with its open dimensions bound; the first one is a batch of 1 by default."""
    import onnx

    kind = onnx.TypeProto()
    kind.CopyFrom(value.type)
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return kind
    for axis, dim in enumerate(kind.tensor_type.shape.dim):
        if dim.HasField("dim_value"):
            if not 1 <= dim.dim_value < MAX_SIZE:
                raise InputError(f"input '{value.name[:120]}': side {axis} is {dim.dim_value}; sizes start at 1")
            continue
        symbol = _symbol(value, axis)
        if symbol not in walk.options.bind and axis > 0 and not _bound_elsewhere(walk, symbol):
            raise InputError(
                f"input '{value.name[:120]}': side {axis} is open ('{symbol}'); give it by --bind {symbol}=SIZE"
            )
        size = walk.options.bind.get(symbol, 1)
        if symbol not in walk.options.bind:
            _note(walk, f"dimension '{symbol}' is open: taken as a batch of 1 (--bind {symbol}=SIZE for another)")
        dim.Clear()
        dim.dim_value = size
    return kind


def _bound_elsewhere(walk: _Walk, symbol: str) -> bool:
    """Whether a symbol was already taken as the batch of an earlier input."""
    return any(f"'{symbol}' is open" in note for note in walk.notes)


def _note(walk: _Walk, text: str) -> None:
    if text not in walk.notes:
        walk.notes.append(text)


def _weights_among(walk: _Walk, inputs: list[Any], graph: Any) -> None:
    """Inputs that are weights: those named by option, those of convolutions, and what is called like one.

    Files without initialisers list weights as inputs. A matrix that is only ever a right-hand operand
    and is called like a weight is taken as stationary, and said so.
    """
    names = [v.name for v in inputs]
    for wanted in walk.options.weights:
        if wanted not in names:
            raise unknown_name("graph input in --weights", wanted, names)
        walk.tensors.constants.add(wanted)
    uses: dict[str, list[tuple[Any, int]]] = {}
    for node in graph.node:
        for i, name in enumerate(node.input):
            uses.setdefault(name, []).append((node, i))
    for value in inputs[1:]:
        used = uses.get(value.name, [])
        right = used and all(i == WEIGHT_AT.get(n.op_type) for n, i in used)
        matrix = len(walk.tensors.dims(value.name) or ()) == 2 and _WEIGHT_NAME.search(value.name)
        kernel = all(n.op_type not in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul") for n, _ in used)
        if right and value.name not in walk.tensors.constants and (matrix or kernel):
            walk.tensors.constants.add(value.name)
            _note(walk, f"graph input '{value.name[:120]}' is taken as stationary weights")


# ---------------------------------------------------------------- nodes
def _nodes(walk: _Walk, nodes: Iterable[Any], folder: Path, depth: int) -> None:
    for node in nodes:
        spot = spot_of(node, walk.position)
        walk.position += 1
        if node.op_type == "If" and not node.domain:
            _branch(walk, node, spot, folder, depth)
            continue
        written, node = node, plain(node)
        infer_outputs(walk.tensors, node, spot, walk.opsets, walk.declared)
        _after_rewriting(walk, written, node)
        if all(name in walk.tensors.constants for name in node.output if name):
            continue  # folded: works on weights or shapes only
        _classify(walk, node, spot)


def _after_rewriting(walk: _Walk, written: Any, node: Any) -> None:
    """Outputs that a rewritten node left behind have the shape of its first; scaled values are not known."""
    first = walk.tensors.types.get(node.output[0]) if node.output else None
    for name in written.output:
        if first is not None and name and name not in node.output:
            walk.tensors.types[name] = first
        if written.op_type in SCALED:
            walk.tensors.values.pop(name, None)


def _branch(walk: _Walk, node: Any, spot: str, folder: Path, depth: int) -> None:
    """An `If` whose condition is known is its branch; else what runs is unknown."""
    from onnx import numpy_helper

    condition = walk.tensors.values.get(node.input[0]) if node.input else None
    graphs = {a.name: a.g for a in node.attribute}
    if condition is None or depth >= MAX_NESTING or not {"then_branch", "else_branch"} <= set(graphs):
        _unsupported(walk, node, spot, "its condition depends on the data")
        return
    chosen = graphs["then_branch" if numpy_helper.to_array(condition).any() else "else_branch"]
    walk.makers.update(makers_of(chosen))
    for tensor in chosen.initializer:
        add_initialiser(walk.tensors, tensor, folder)
    _nodes(walk, chosen.node, folder, depth + 1)
    for inner, outer in zip((v.name for v in chosen.output), node.output, strict=False):
        for known in (walk.tensors.types, walk.tensors.values):
            if inner in known:
                known[outer] = known[inner]
        if inner in walk.tensors.constants:
            walk.tensors.constants.add(outer)


def _classify(walk: _Walk, node: Any, spot: str) -> None:
    """A node becomes layers, is ignored because it has no MACs, or is an error."""
    make = converter(node)
    if make is not None:
        name = walk.names.unique(node.name or next((o for o in node.output if o), "") or f"node{walk.position - 1}")
        found = make(Site(node, spot, name, walk.tensors, walk.image_batch))
        walk.layers += [_named(walk, layer, name) for layer in found]
    elif not node.domain.replace("ai.onnx", "") and node.op_type in NO_MACS:
        _ignore(walk, node)
    elif _is_elementwise(walk, node):
        _ignore(walk, node)
        _note(walk, f"operator {node.op_type[:60]} of domain {node.domain[:60]} is taken as elementwise")
        walk.tensors.types.update(
            {o: walk.tensors.types[node.input[0]] for o in node.output[:1] if walk.tensors.dims(o) is None}
        )
    else:
        reason = "it multiplies and accumulates in a form that is not mapped"
        _unsupported(walk, node, spot, reason if node.op_type in UNSUPPORTED else "it is not known")


def _ignore(walk: _Walk, node: Any) -> None:
    made = next((walk.makers[o] for o in node.output if o in walk.makers), None)
    if made is not None:
        walk.ignored.append(made[:120])


def _named(walk: _Walk, layer: Layer, name: str) -> Layer:
    """Layers of one node in a name of their own; those named by option are dynamic."""
    from dataclasses import replace

    unique = layer.name if layer.name == name else walk.names.unique(layer.name)
    if unique in walk.options.dynamic:
        return replace(layer, name=unique, kind="matmul", dynamic=True)
    return replace(layer, name=unique)


def _is_elementwise(walk: _Walk, node: Any) -> bool:
    """An operator of another domain that is known by name, or gives back the shape it takes (as declared)."""
    if not node.domain.replace("ai.onnx", "") or not node.input:
        return False
    if node.op_type.lower() in ELSEWHERE_NO_MACS:
        return True
    moving = [n for n in node.input if not walk.tensors.is_constant(n)]
    shapes = [walk.tensors.dims(n) for n in (*moving, *node.output)]
    return len(moving) == len(node.output) == len(node.input) == 1 and shapes[0] is not None and shapes[0] == shapes[1]


def _unsupported(walk: _Walk, node: Any, spot: str, reason: str) -> None:
    kind = f"{node.domain}.{node.op_type}".strip(".")[:120]
    if not walk.options.allow_unsupported:
        raise InputError(f"unsupported operator {kind}: {spot}: {reason} (--allow-unsupported leaves it out)")
    import onnx

    walk.ignored.append(f"{kind} (unsupported)")
    walk.warnings.append(f"{spot} is left out although unsupported: its MACs are missing")
    for name in node.output:
        walk.tensors.types.setdefault(name, walk.declared.get(name) or onnx.TypeProto())
