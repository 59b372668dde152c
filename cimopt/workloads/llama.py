"""Llama-like decoders: RMS norm, rotary embedding, grouped queries, gated feed-forward, no biases.

Shapes: Touvron et al. 2023, arXiv 2302.13971 and 2307.09288; grouped queries: arXiv 2305.13245.
One block is listed with `repeats = layers`. Counted: weights and the two attention products. Not
counted: norms, rotations and activations (no products along an axis), the embedding (a look-up).

Prefill runs `sequence` tokens at once, scores in full (the causal half is not skipped) and the
vocabulary head at every position, as in the zoo's gpt2_medium. Decode makes one token with
`sequence` tokens in the key-value cache, the new one included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cimopt.errors import InputError
from cimopt.types import Layer, Value, Workload
from cimopt.workloads.knobs import Knob

PHASES = ("prefill", "decode")

KNOBS: dict[str, Knob] = {
    "layers": Knob(),
    "width": Knob(),
    "heads": Knob(),
    "kv_heads": Knob(follows="heads"),
    "ffn": Knob(),
    "vocab": Knob(),
    "sequence": Knob(unit="token"),
    "phase": Knob("prefill", words=PHASES),
}


def check(p: Mapping[str, Value], where: str) -> None:
    """What single values cannot tell."""
    if p["width"] % p["heads"]:
        raise InputError(f"{where}: width={p['width']} is no multiple of heads={p['heads']}")
    if p["heads"] % p["kv_heads"]:
        raise InputError(f"{where}: heads={p['heads']} is no multiple of kv_heads={p['kv_heads']}")


@dataclass(frozen=True)
class LlamaParams:
    """Sizes of one model and of one run; `width` and `ffn` in channels, `sequence` in tokens."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    sequence: int
    phase: str

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def tokens(self) -> int:
        """Positions that are computed in one run."""
        return self.sequence if self.phase == "prefill" else 1


def build(name: str, values: Mapping[str, Value]) -> Workload:
    """The layers of one block, `layers` times, and the vocabulary head."""
    p = LlamaParams(**{key: values[key] for key in KNOBS})
    return Workload(
        name=name,
        layers=(*_attention(p), *_feed_forward(p), _linear(p, "lm_head", p.width, p.vocab, repeats=1)),
        variant=f"{p.layers} blocks of width {p.width}, {p.phase}, {p.sequence} tokens",
        source="arXiv 2302.13971, 2307.09288 (family llama)",
        input_shape=(p.tokens,),
    )


def _attention(p: LlamaParams) -> tuple[Layer, ...]:
    keys = p.kv_heads * p.head_width
    return (
        _linear(p, "block.q_proj", p.width, p.width),
        _linear(p, "block.k_proj", p.width, keys),
        _linear(p, "block.v_proj", p.width, keys),
        _product(p, "block.qk", p.head_width, p.sequence),
        _product(p, "block.av", p.sequence, p.head_width),
        _linear(p, "block.o_proj", p.width, p.width),
    )


def _feed_forward(p: LlamaParams) -> tuple[Layer, ...]:
    return (
        _linear(p, "block.gate_proj", p.width, p.ffn),
        _linear(p, "block.up_proj", p.width, p.ffn),
        _linear(p, "block.down_proj", p.ffn, p.width),
    )


def _linear(p: LlamaParams, name: str, inputs: int, outputs: int, repeats: int | None = None) -> Layer:
    return Layer(
        name=name,
        kind="linear",
        in_channels=inputs,
        out_channels=outputs,
        out_map=(p.tokens, 1),
        repeats=p.layers if repeats is None else repeats,
    )


def _product(p: LlamaParams, name: str, inner: int, columns: int) -> Layer:
    """One group per key-value head; the queries that share it add to its rows."""
    return Layer(
        name=name,
        kind="matmul",
        in_channels=p.kv_heads * inner,
        out_channels=p.kv_heads * columns,
        groups=p.kv_heads,
        out_map=(p.tokens * (p.heads // p.kv_heads), 1),
        repeats=p.layers,
        dynamic=True,
    )
