"""Opening an ONNX file: bounded, checked for damage, local functions written out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cimopt.errors import InputError, MissingExtraError
from cimopt.workloads.importers.onnx_names import NO_MACS

MAX_BYTES = 2**31  # what the format itself allows in one file
MAX_NODES = 200_000
MAX_CALLS = 50  # functions inside functions


def load_model(path: Path) -> Any:
    """The model as stored; external data is not touched."""
    try:
        import onnx
        import onnx.inliner
        import onnx.shape_inference
    except ImportError:
        raise MissingExtraError("reading ONNX models", "onnx") from None
    try:
        size = path.stat().st_size
        if not path.is_file():  # a device or a pipe may never end
            raise InputError(f"ONNX model '{path}' cannot be read: it is no regular file")
        if size > MAX_BYTES:
            raise InputError(f"ONNX model '{path}' has {size:,} bytes; at most {MAX_BYTES:,} are read")
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"no ONNX model '{path}' (relative paths start at {Path.cwd()})") from None
    except (OSError, ValueError) as error:
        raise InputError(f"ONNX model '{path}' cannot be read: {error}") from None
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's own error class has moved between releases
        raise InputError(f"'{path}' is no ONNX model: {_line(error)}") from None
    if not model.graph.node:
        raise InputError(f"'{path}' is no ONNX model, or an empty one: its graph has no nodes")
    _check_text(model, path)
    return model


def _check_text(message: Any, path: Path) -> None:
    """Refuse names that are no text: protobuf hands them out as bytes, which no later step expects."""
    if message.DESCRIPTOR.name == "TensorProto":  # listing its fields would copy the weights
        texts, inner = [message.name], list(message.external_data)
    else:
        values = [v for f, v in message.ListFields() if f.type in (f.TYPE_STRING, f.TYPE_MESSAGE)]
        single = [v for v in values if isinstance(v, (str, bytes)) or hasattr(v, "DESCRIPTOR")]
        several = [one for v in values if not isinstance(v, (str, bytes)) and not hasattr(v, "DESCRIPTOR") for one in v]
        texts = [v for v in (*single, *several) if isinstance(v, (str, bytes))]
        inner = [v for v in (*single, *several) if hasattr(v, "DESCRIPTOR")]
    if any(not isinstance(text, str) for text in texts):
        raise InputError(f"'{path}' is a damaged ONNX model: a name in it is no text")
    for one in inner:
        _check_text(one, path)


def inlined(model: Any, path: Path) -> tuple[Any, dict[str, str]]:
    """The model with its local functions written out, and how each tensor's maker is called in the file.

    A function without multiply-accumulates keeps its own name among what is ignored, rather than
    those of the operators it is made of; nodes inside it have no entry.
    """
    import onnx

    if not model.functions:
        return model, makers_of(model.graph)
    if _written_out(model) > MAX_NODES:
        raise InputError(f"{path}: its local functions call each other too often to be written out")
    simple = [(f.domain, f.name) for f in model.functions if all(n.op_type in NO_MACS for n in f.node)]
    try:
        outer = onnx.inliner.inline_selected_functions(model, simple, exclude=True) if simple else None
        whole = onnx.inliner.inline_local_functions(model)
    except Exception as error:  # the binding raises several kinds
        raise InputError(f"{path}: its local functions cannot be written out: {_line(error)}") from None
    return whole, makers_of((outer or whole).graph)


def _written_out(model: Any) -> int:
    """Nodes of the main graph once its functions are written out; a function inside itself counts as too many."""
    bodies = {(f.domain, f.name): f.node for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Iterable[Any], open_calls: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            if key in open_calls or len(open_calls) > MAX_CALLS:
                return MAX_NODES + 1
            if key in bodies and key not in sizes:
                sizes[key] = size(bodies[key], (*open_calls, key))
            total = min(total + sizes.get(key, 1) + 1, MAX_NODES + 1)
            nested = [a.g.node for a in node.attribute if a.HasField("g")]
            total += sum(size(inner, (*open_calls, ("graph", str(len(open_calls))))) for inner in nested)
        return total

    return size(model.graph.node, ())


def makers_of(graph: Any) -> dict[str, str]:
    """Operator, as the file calls it, of each tensor of a graph."""
    return {output: node.op_type for node in graph.node for output in node.output if output}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
