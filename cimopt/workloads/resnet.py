"""Residual networks: He et al. 2015, arXiv 1512.03385, table 1, in torchvision's variant (v1.5).

Two kinds of block: `basic` (two k x k convolutions) and `bottleneck` (1 x 1, k x k, 1 x 1 to four times the width).
The kernel parameters replace the paper's 3; the 7 x 7 stem stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from cimopt.types import Value, Workload
from cimopt.workloads.builder import FeatureMap, Network, adaptive_pool, flatten, pool
from cimopt.workloads.knobs import Knob, staged

CHANNELS = (64, 128, 256, 512)
EXPANSION = {"basic": 1, "bottleneck": 4}
STAGES = len(CHANNELS)

# The defaults are ResNet-18.
KNOBS: dict[str, Knob] = {
    "block": Knob("basic", words=tuple(EXPANSION)),
    "width": Knob(1.0, low=0.05, high=16, real=True),  # multiplies all channels
    "resolution": Knob(224, low=32, high=4096, unit="px"),
    "classes": Knob(1000),
    "depth": Knob(2, high=256),
    "kernel": Knob(3, high=15, odd=True),
    "weight_bits": Knob(8, high=16, unit="bit"),
    "activation_bits": Knob(8, high=16, unit="bit"),
    **{k: v for name in ("depth", "kernel", "weight_bits", "activation_bits") for k, v in staged(name, STAGES).items()},
}


def build(name: str, p: Mapping[str, Value]) -> Workload:
    """The network of resolved parameters. Stem and classifier have the bits that are not a stage's."""
    net = Network(
        name, variant=f"{p['block']} blocks {[p[f'depth_{i}'] for i in range(1, STAGES + 1)]}",
        source="arXiv 1512.03385, table 1 (family resnet)", input_shape=(3, p["resolution"], p["resolution"]),
    )  # fmt: skip
    _bits(net, p)
    x = pool(net.conv(net.input, "conv1", _scaled(CHANNELS[0], p), 7, stride=2, padding=3), 3, 2, padding=1)
    for stage, channels in enumerate(CHANNELS, start=1):
        _bits(net, p, stage)
        for block in net.block_repeats(p[f"depth_{stage}"]):
            stride = 2 if stage > 1 and block == 0 else 1
            x = _block(net, x, f"layer{stage}.{block}", _scaled(channels, p), stride, p["block"], p[f"kernel_{stage}"])
    _bits(net, p)
    net.linear(flatten(adaptive_pool(x, 1)), "fc", p["classes"])
    return net.workload(p, fold=True)


def _bits(net: Network, p: Mapping[str, Value], stage: int | None = None) -> None:
    suffix = "" if stage is None else f"_{stage}"
    net.weight_bits, net.activation_bits = p[f"weight_bits{suffix}"], p[f"activation_bits{suffix}"]


def _scaled(channels: int, p: Mapping[str, Value]) -> int:
    return max(1, round(channels * p["width"]))


def _block(net: Network, x: FeatureMap, name: str, width: int, stride: int, kind: str, kernel: int) -> FeatureMap:
    out = width * EXPANSION[kind]
    if kind == "basic":
        y = net.conv(x, f"{name}.conv1", width, kernel, stride=stride, padding=kernel // 2)
        y = net.conv(y, f"{name}.conv2", out, kernel, padding=kernel // 2)
    else:
        y = net.conv(x, f"{name}.conv1", width, 1)
        y = net.conv(y, f"{name}.conv2", width, kernel, stride=stride, padding=kernel // 2)
        y = net.conv(y, f"{name}.conv3", out, 1)
    if stride != 1 or x.channels != out:
        net.conv(x, f"{name}.downsample.0", out, 1, stride=stride)
    return y
