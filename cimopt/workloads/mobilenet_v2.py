"""MobileNetV2: Sandler et al. 2018, arXiv 1801.04381, table 2; inverted residual blocks in seven stages.

Every stage has a depth (blocks), an expansion and a kernel of its own, as in searches for such networks.
"""

from __future__ import annotations

from collections.abc import Mapping

from cimopt.types import Value, Workload
from cimopt.workloads.builder import FeatureMap, Network, adaptive_pool, flatten
from cimopt.workloads.knobs import Knob, staged

# Output channels, blocks and stride of the stages; the first one does not expand.
STAGE_CHANNELS = (16, 24, 32, 64, 96, 160, 320)
STAGE_DEPTHS = (1, 2, 3, 4, 3, 3, 1)
STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
STAGES = len(STAGE_CHANNELS)
STEM, LAST = 32, 1280
DIVISOR = 8

KNOBS: dict[str, Knob] = {
    "width": Knob(1.0, low=0.1, high=8, real=True),  # multiplies all channels
    "resolution": Knob(224, low=32, high=4096, unit="px"),
    "classes": Knob(1000),
    "kernel": Knob(3, high=15, odd=True),
    "expand": Knob(6, high=32),
    "weight_bits": Knob(8, high=16, unit="bit"),
    "activation_bits": Knob(8, high=16, unit="bit"),
    **{f"depth_{i}": Knob(n, high=64) for i, n in enumerate(STAGE_DEPTHS, start=1)},
    **{k: v for k, v in staged("expand", STAGES).items() if k != "expand_1"},
    **{k: v for name in ("kernel", "weight_bits", "activation_bits") for k, v in staged(name, STAGES).items()},
}


def build(name: str, p: Mapping[str, Value]) -> Workload:
    """The network of resolved parameters. Stem, last convolution and classifier have the bits that are not a stage's."""
    net = Network(
        name, variant=f"width {p['width']:g}, {p['resolution']} px", source="arXiv 1801.04381, table 2 (family mobilenet_v2)",
        input_shape=(3, p["resolution"], p["resolution"]),
    )  # fmt: skip
    _bits(net, p)
    x = net.conv(net.input, "features.0.0", divisible(STEM * p["width"]), 3, stride=2, padding=1)
    for stage, (channels, stride) in enumerate(zip(STAGE_CHANNELS, STAGE_STRIDES, strict=True), start=1):
        _bits(net, p, stage)
        expand = 1 if stage == 1 else p[f"expand_{stage}"]
        for block in net.block_repeats(p[f"depth_{stage}"]):
            x = _block(
                net, x, f"stage{stage}.{block}", divisible(channels * p["width"]), expand, p[f"kernel_{stage}"],
                stride if block == 0 else 1,
            )  # fmt: skip
    _bits(net, p)
    # A narrow network keeps the last convolution's width (section 4.1 of the paper).
    x = net.conv(x, "features.18.0", divisible(LAST * max(1.0, p["width"])), 1)
    net.linear(flatten(adaptive_pool(x, 1)), "classifier.1", p["classes"])
    return net.workload(p, fold=True)


def _bits(net: Network, p: Mapping[str, Value], stage: int | None = None) -> None:
    suffix = "" if stage is None else f"_{stage}"
    net.weight_bits, net.activation_bits = p[f"weight_bits{suffix}"], p[f"activation_bits{suffix}"]


def _block(net: Network, x: FeatureMap, name: str, out: int, expand: int, kernel: int, stride: int) -> FeatureMap:
    """Expand (left out where it would not widen), depthwise, project."""
    wide = x.channels * expand
    if expand != 1:
        x = net.conv(x, f"{name}.expand", wide, 1)
    x = net.conv(x, f"{name}.depthwise", wide, kernel, stride=stride, padding=kernel // 2, groups=wide)
    return net.conv(x, f"{name}.project", out, 1)


def divisible(wanted: float, divisor: int = DIVISOR) -> int:
    """The nearest multiple of 8, but never more than 10 % below: the rounding of the MobileNet papers' public code."""
    rounded = max(divisor, int(wanted + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * wanted else rounded
