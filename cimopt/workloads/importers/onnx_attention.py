"""Fused attention operators: the two products of two activations, per head of keys and values."""

from __future__ import annotations

from math import prod

from cimopt.errors import InputError
from cimopt.types import Layer
from cimopt.workloads.importers.onnx_layers import Site, linear


def attention(site: Site) -> list[Layer]:
    """Attention of ONNX: Q, K, V as (batch, heads, tokens, width) or (batch, tokens, heads x width)."""
    q, k, v = (_heads(site, i, "q_num_heads" if i == 0 else "kv_num_heads") for i in range(3))
    past = _past(site, 4)
    return _products(site, q, k, v, past)


def microsoft(site: Site) -> list[Layer]:
    """MultiHeadAttention of com.microsoft: Q, K, V as (batch, tokens, heads x width)."""
    q, k, v = (_heads(site, i, "num_heads") for i in range(3))
    return _products(site, q, k, v, _past(site, 6))


def packed(site: Site) -> list[Layer]:
    """Attention of com.microsoft: one weight projects to queries, keys and values side by side."""
    data, weight = site.shape(0), site.shape(1)
    heads = site.attribute("num_heads", 0)
    if (
        len(data) != 3
        or len(weight) != 2
        or weight[0] != data[2]
        or weight[1] % 3
        or heads < 1
        or weight[1] // 3 % heads
    ):
        raise InputError(f"{site.spot}: input {list(data)}, weight {list(weight)}, {heads} heads do not fit")
    if site.attribute("qkv_hidden_sizes", []):
        raise InputError(f"{site.spot}: qkv_hidden_sizes is not supported")
    one = (data[0], heads, data[1], weight[1] // 3 // heads)
    return [linear(site, data, weight[1], f"{site.name}.qkv"), *_products(site, one, one, one, _past(site, 4, axis=3))]


def _past(site: Site, position: int, axis: int = 2) -> int:
    """Tokens of earlier calls whose keys are kept, 0 without."""
    inputs = site.node.input
    if position >= len(inputs) or not inputs[position]:
        return 0
    shape = site.shape(position)
    if len(shape) <= axis:
        raise InputError(f"{site.spot}: past keys have shape {list(shape)}")
    return shape[axis]


def _heads(site: Site, position: int, attribute: str) -> tuple[int, int, int, int]:
    """(batch, heads, tokens, width) of one operand."""
    shape = site.shape(position)
    if len(shape) == 4:
        return shape
    heads = site.attribute(attribute, 0)
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        raise InputError(
            f"{site.spot}: operand {position} is {list(shape)} with {attribute}={heads}: no heads can be made"
        )
    return shape[0], heads, shape[1], shape[2] // heads


def _products(site: Site, q: tuple, k: tuple, v: tuple, past: int) -> list[Layer]:
    """Scores, then values; heads of queries that share keys (grouped attention) add to the rows."""
    good = q[0] == k[0] == v[0] and k[1] == v[1] and k[2] == v[2] and q[3] == k[3] and q[1] % k[1] == 0
    if not good:
        raise InputError(f"{site.spot}: queries {list(q)}, keys {list(k)}, values {list(v)} do not fit")
    site.give((q[0], q[2], q[1] * v[3]))
    copies, rows, length = prod(k[:2]), q[2] * (q[1] // k[1]), k[2] + past

    def part(suffix: str, inner: int, columns: int) -> Layer:
        return site.layer(
            name=f"{site.name}.{suffix}", kind="matmul", in_channels=copies * inner, out_channels=copies * columns,
            groups=copies, out_map=(rows, 1), dynamic=True,
        )  # fmt: skip

    return [part("qk", k[3], length), part("av", length, v[3])]
