"""Writes a workload in the readable form of the zoo: one flow-style line per layer."""

from __future__ import annotations

import re

from cimopt.types import Layer, Workload
from cimopt.workloads.schema import LAYER_KEYS, totals_of

_ALWAYS = ("name", "kind", "in_channels", "out_channels")
# Stated for every conv, so that a line can be read without knowing the defaults.
_CONV = (*_ALWAYS, "kernel", "stride", "padding", "groups", "out_map")
_DEFAULTS = Layer(name="default", kind="linear", in_channels=1, out_channels=1)
# Plain text that no YAML reader takes for a number, date or boolean.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*([./-][A-Za-z0-9_]+)*")
_NOT_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def to_yaml(workload: Workload, comment: str = "") -> str:
    """YAML text that `load` reads back to an equal workload; `comment` becomes `#` lines on top."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"{key}: {_scalar(getattr(workload, key))}" for key in ("name", "variant", "source")]
    if workload.input_shape is not None:
        lines.append(f"input_shape: {_flow(workload.input_shape)}")
    lines.append("totals:")
    lines += [f"  {key}: {value}" for key, value in totals_of(workload).items()]
    lines.append("layers:")
    lines += [f"  - {_layer(layer)}" for layer in workload.layers]
    return "\n".join(lines) + "\n"


def _layer(layer: Layer) -> str:
    always = _CONV if layer.kind == "conv" else _ALWAYS
    shown = [k for k in LAYER_KEYS if k in always or getattr(layer, k) != getattr(_DEFAULTS, k)]
    return "{" + ", ".join(f"{key}: {_flow(getattr(layer, key))}" for key in shown) + "}"


def _flow(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    return _real(value) if isinstance(value, float) else str(value)


def _real(value: float) -> str:
    """Shortest exact form; YAML 1.1 reads `1e-07` as text, so the mantissa gets its point."""
    text = repr(value)
    mantissa, sign, exponent = text.partition("e")
    return text if not sign or "." in mantissa else f"{mantissa}.0e{exponent}"


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    import yaml

    return yaml.safe_dump(text, default_style='"', width=1_000_000).strip()
