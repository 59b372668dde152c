"""One ONNX node that multiplies and accumulates, as `Layer`s.

Channels are totals over groups; a product of two activations is `dynamic`, with the second operand's
copies (heads, images) as groups. The axis of a 1-D convolution is the height.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from cimopt.errors import InputError
from cimopt.types import Layer
from cimopt.workloads.importers.onnx_names import CONVOLUTIONS, PRODUCTS, RECURRENT
from cimopt.workloads.importers.onnx_shapes import Tensors
from cimopt.workloads.importers.options import MAX_SIZE, short
from cimopt.workloads.importers.windows import same_pads, window_count


@dataclass(frozen=True)
class Site:
    """A node in its graph: where it stands (`spot`, for errors), its name as a layer, its attributes."""

    node: Any
    spot: str
    name: str
    tensors: Tensors
    image_batch: int | None  # the batch of a network of images, to tell it from tokens in 2-D products

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute's value: int, list of ints, or text."""
        for a in self.node.attribute:
            if a.name == name:
                if isinstance(default, str):
                    return a.s.decode("utf-8", "replace")
                return list(a.ints) if isinstance(default, list) else a.i
        return default

    def shape(self, position: int) -> tuple[int, ...]:
        return self.tensors.shape(self.operand(position), self.spot)

    def operand(self, position: int) -> str:
        if position >= len(self.node.input) or not self.node.input[position]:
            raise InputError(f"{self.spot}: input {position} is missing")
        return self.node.input[position]

    def is_constant(self, position: int) -> bool:
        return self.tensors.is_constant(self.operand(position))

    def give(self, shape: tuple[int, ...]) -> None:
        """Shape of the first output, where ONNX could not infer it."""
        import onnx

        output = next(iter(self.node.output), "")
        if output and self.tensors.dims(output) is None:
            self.tensors.types[output] = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, shape)

    def layer(self, **values: Any) -> Layer:
        try:
            return Layer(**{"name": self.name, **values})
        except InputError as error:
            raise InputError(f"{self.spot}: {error}") from None


def converter(node: Any) -> Callable[[Site], list[Layer]] | None:
    """The function for a node's operator, or None when it has no multiply-accumulates that we map."""
    from cimopt.workloads.importers import onnx_attention

    op = node.op_type
    if node.domain == "com.microsoft":
        fused = {"Attention": onnx_attention.packed, "MultiHeadAttention": onnx_attention.microsoft}
        return (fused | {"FusedMatMul": matmul, "MatMulNBits": packed_weights}).get(op)
    if node.domain not in ("", "ai.onnx") or op == "FusedMatMul":
        return None
    return onnx_attention.attention if op == "Attention" else CONVERTERS.get(op)


def convolution(site: Site) -> list[Layer]:
    """Conv, ConvInteger, QLinearConv: input (N, C, sides), weight (M, C / groups, kernel sides)."""
    data, weight = (site.shape(p) for p in CONVOLUTIONS[site.node.op_type])
    sides = _sides(site, data, weight)
    groups = _whole(site, "group", 1)
    if data[1] != weight[1] * groups:
        raise InputError(f"{site.spot}: {data[1]} input channels, but the weight expects {weight[1]} x {groups} groups")
    kernel, stride, dilation, pads = _window(site, sides, weight[2:])
    counts = [window_count(*row) for row in zip(data[2:], kernel, stride, pads, dilation, strict=True)]
    if min(counts) < 1:
        raise InputError(f"{site.spot}: a kernel of {list(kernel)} does not fit into {list(data[2:])}")
    return [
        site.layer(
            kind="conv", in_channels=data[1], out_channels=weight[0], kernel=_two(kernel), stride=_two(stride),
            padding=_frame(pads), dilation=_two(dilation), groups=groups, out_map=_two(counts), batch=data[0],
            dynamic=not site.is_constant(CONVOLUTIONS[site.node.op_type][1]),
        )
    ]  # fmt: skip


def transposed(site: Site) -> list[Layer]:
    """ConvTranspose: each input position is multiplied by all M x kernel values, then scattered and added.

    So MACs follow the *input* map. As a layer: a 1x1 convolution to M x kernel channels.
    """
    data, weight = site.shape(0), site.shape(1)
    _sides(site, data, weight)
    groups = _whole(site, "group", 1)
    if data[1] != weight[0] or data[1] % groups:
        raise InputError(f"{site.spot}: {data[1]} input channels, weight {list(weight)}, {groups} groups do not fit")
    products = weight[1] * groups * prod(weight[2:])
    return [
        site.layer(
            kind="conv", in_channels=data[1], out_channels=products, groups=groups, out_map=_two(data[2:]),
            batch=data[0], dynamic=not site.is_constant(1),
        )
    ]  # fmt: skip


def _sides(site: Site, data: tuple[int, ...], weight: tuple[int, ...]) -> int:
    """Number of spatial sides, 1 or 2."""
    if len(data) != len(weight) or not 3 <= len(data) <= 4:
        raise InputError(
            f"{site.spot}: input {list(data)} and weight {list(weight)}: only 1-D and 2-D convolutions are supported"
        )
    return len(data) - 2


def _whole(site: Site, name: str, default: int) -> int:
    value = site.attribute(name, default)
    if not 1 <= value < MAX_SIZE:
        raise InputError(f"{site.spot}: {name}={value} must be at least 1")
    return value


def _window(site: Site, sides: int, kernel: tuple[int, ...]) -> tuple[Any, Any, Any, list[tuple[int, int]]]:
    """Kernel, stride, dilation per side, and (begin, end) pads per side."""
    lists = {key: site.attribute(key, []) or [1] * sides for key in ("strides", "dilations")}
    stated = site.attribute("kernel_shape", []) or list(kernel)
    pads = site.attribute("pads", []) or [0] * (2 * sides)
    if stated != list(kernel):
        raise InputError(f"{site.spot}: kernel_shape={stated}, but the weight is {list(kernel)}")
    for key, values in lists.items():
        if len(values) != sides or not all(1 <= v < MAX_SIZE for v in values):
            raise InputError(f"{site.spot}: {key}={values} must be {sides} numbers >= 1")
    if len(pads) != 2 * sides or not all(0 <= p < MAX_SIZE for p in pads):
        raise InputError(f"{site.spot}: pads={pads} must be {2 * sides} numbers >= 0 (begins, then ends)")
    data = site.shape(CONVOLUTIONS[site.node.op_type][0])[2:]
    auto = site.attribute("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise InputError(f"{site.spot}: auto_pad={short(auto)} is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    frame = [(pads[i], pads[i + sides]) if auto == "NOTSET" else (0, 0) for i in range(sides)]
    if auto.startswith("SAME"):
        rows = zip(data, kernel, lists["strides"], lists["dilations"], strict=True)
        frame = [same_pads(*row, upper=auto == "SAME_UPPER") for row in rows]
    return kernel, lists["strides"], lists["dilations"], frame


def _two(values: Any) -> tuple[int, int]:
    return (*values, 1)[:2]


def _frame(pads: list[tuple[int, int]]) -> tuple[int, int, int, int]:
    """[(top, bottom), (left, right)] as top, left, bottom, right."""
    (top, bottom), (left, right) = (*pads, (0, 0))[:2]
    return top, left, bottom, right


def gemm(site: Site) -> list[Layer]:
    """Gemm: A (rows, K) times B (K, N), each possibly given transposed."""
    a, b = site.shape(0), site.shape(1)
    if len(a) != 2 or len(b) != 2:
        raise InputError(f"{site.spot}: Gemm needs matrices, got {list(a)} and {list(b)}")
    a = a[::-1] if site.attribute("transA", 0) else a
    b = b[::-1] if site.attribute("transB", 0) else b
    return product(site, a, b, site.is_constant(0), site.is_constant(1))


def matmul(site: Site) -> list[Layer]:
    """MatMul, MatMulInteger, QLinearMatMul, FusedMatMul with NumPy's rules of broadcasting."""
    first, second = PRODUCTS[site.node.op_type]
    a, b = site.shape(first), site.shape(second)
    if not a or not b:
        raise InputError(f"{site.spot}: a matrix product of a single number: {list(a)} times {list(b)}")
    a, b = (a if len(a) > 1 else (1, *a)), (b if len(b) > 1 else (*b, 1))
    if site.attribute("transA", 0):
        a = (*a[:-2], a[-1], a[-2])
    if site.attribute("transB", 0):
        b = (*b[:-2], b[-1], b[-2])
    return product(site, a, b, site.is_constant(first), site.is_constant(second))


def packed_weights(site: Site) -> list[Layer]:
    """MatMulNBits: weights of few bits, packed; K and N are attributes."""
    data, inner, columns = site.shape(0), _whole(site, "K", 0), _whole(site, "N", 0)
    if data[-1:] != (inner,):
        raise InputError(f"{site.spot}: input {list(data)} does not end in K={inner}")
    site.give((*data[:-1], columns))
    return [linear(site, data, columns)]


def product(site: Site, a: tuple[int, ...], b: tuple[int, ...], a_fixed: bool, b_fixed: bool) -> list[Layer]:
    """(..., rows, K) times (..., K, N) as a layer."""
    if a[-1] != b[-2]:
        raise InputError(f"{site.spot}: {list(a)} times {list(b)}: {a[-1]} columns meet {b[-2]} rows")
    if a_fixed and not b_fixed:  # weights on the left: the same product, transposed
        a, b = (*b[:-2], b[-1], b[-2]), (*a[:-2], a[-1], a[-2])
    outer = _broadcast(site, a[:-2], b[:-2])
    site.give((*outer, a[-2], b[-1]))
    copies = prod(b[:-2])
    dynamic = a_fixed == b_fixed
    if dynamic or copies > 1:
        return [
            site.layer(
                kind="matmul", in_channels=copies * b[-2], out_channels=copies * b[-1], groups=copies,
                out_map=(prod(outer) // copies * a[-2], 1), dynamic=dynamic,
            )
        ]  # fmt: skip
    return [linear(site, (*outer, a[-2], a[-1]), b[-1])]


def linear(site: Site, data: tuple[int, ...], out_features: int, name: str | None = None) -> Layer:
    """A fully connected layer on (..., features): images count as batch, anything else as positions."""
    *outer, in_features = data
    if len(outer) == 1:
        batch = outer[0] if outer[0] == site.image_batch else 1
        rest = outer[0] // batch
    else:
        batch, rest = (outer[0], prod(outer[1:])) if outer else (1, 1)
    return site.layer(
        name=name or site.name, kind="linear", in_channels=in_features, out_channels=out_features,
        out_map=(rest, 1), batch=batch,
    )  # fmt: skip


def _broadcast(site: Site, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    import numpy as np

    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise InputError(f"{site.spot}: outer sides {list(a)} and {list(b)} do not fit each other") from None


def recurrent(site: Site) -> list[Layer]:
    """LSTM, GRU, RNN: input (T, batch, I); gates' weights (directions, gates x H, I) and (..., H), used T times."""
    data, weight, feedback = site.shape(0), site.shape(1), site.shape(2)
    gates = RECURRENT[site.node.op_type]
    hidden = feedback[-1]
    good = len(data) == len(weight) == len(feedback) == 3 and weight[:2] == feedback[:2]
    if not good or weight[1] != gates * hidden or weight[2] != data[2] or weight[0] > 2:
        raise InputError(f"{site.spot}: input {list(data)}, W {list(weight)}, R {list(feedback)} do not fit")
    steps, batch = (data[1], data[0]) if site.attribute("layout", 0) else (data[0], data[1])

    def part(suffix: str, features: int) -> Layer:
        return site.layer(
            name=f"{site.name}.{suffix}", kind="linear", in_channels=features, out_channels=weight[1],
            out_map=(steps, 1), batch=batch, repeats=weight[0],
        )  # fmt: skip

    return [part("input", data[2]), part("recurrent", hidden)]


def einsum(site: Site) -> list[Layer]:
    """Einsum of two operands that is a (grouped) matrix product."""
    equation = site.attribute("equation", "").replace(" ", "")
    left, arrow, output = equation.partition("->")
    terms = left.split(",")
    shapes = [site.shape(i) for i in range(len(site.node.input))]
    plain = all(t.isalpha() and len(set(t)) == len(t) for t in terms) and (not output or output.isalpha())
    if not arrow or len(terms) != 2 or len(shapes) != 2 or not plain:
        raise InputError(f"{site.spot}: unsupported equation {short(equation)}: two operands, letters and '->' only")
    sizes = _letters(site, terms, shapes, output)
    constant = [site.is_constant(0), site.is_constant(1)]
    a, b = terms if not constant[0] or constant[1] else terms[::-1]
    groups = {d for d in b if d in a and d in output}
    return _einsum_layers(site, sizes, a, b, output, groups, dynamic=constant[0] == constant[1])


def _letters(site: Site, terms: list[str], shapes: list[tuple[int, ...]], output: str) -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            raise InputError(f"{site.spot}: '{term}' names {len(term)} sides of a tensor with {len(shape)}")
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise InputError(f"{site.spot}: '{letter}' has sizes {sizes[letter]} and {size}")
    missing = [d for d in output if d not in sizes]
    if missing:
        raise InputError(f"{site.spot}: '{missing[0]}' is in no operand")
    return sizes


def _einsum_layers(
    site: Site, sizes: Mapping[str, int], a: str, b: str, output: str, groups: set[str], *, dynamic: bool
) -> list[Layer]:
    alone = [d for d in a + b if (d in a) != (d in b) and d not in output]
    if alone:
        raise InputError(f"{site.spot}: '{alone[0]}' is summed over one operand alone: no matrix product")

    def count(dims: str) -> int:
        return prod(sizes[d] for d in dims)

    copies = count("".join(groups))
    inner = count("".join(d for d in b if d in a and d not in output))
    columns = count("".join(d for d in b if d not in a))
    rows = count("".join(d for d in a if d not in b))
    kind = "matmul" if dynamic or copies > 1 else "linear"
    return [
        site.layer(
            kind=kind, in_channels=copies * inner, out_channels=copies * columns, groups=copies, out_map=(rows, 1),
            dynamic=dynamic,
        )
    ]  # fmt: skip


CONVERTERS: dict[str, Callable[[Site], list[Layer]]] = {
    **dict.fromkeys(CONVOLUTIONS, convolution),
    **dict.fromkeys(PRODUCTS, matmul),
    **dict.fromkeys(RECURRENT, recurrent),
    "ConvTranspose": transposed,
    "Gemm": gemm,
    "Einsum": einsum,
}
