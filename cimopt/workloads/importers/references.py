"""Totals of well-known networks, to tell which variant a file holds and by how much it differs.

Files called "AlexNet" hold two different networks, and public MobileNet files hold layers that the
paper does not have: an import states the difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cimopt.types import Workload


@dataclass(frozen=True)
class Reference:
    """MACs (bias excluded, batch 1) and weights of one variant of a network."""

    network: str
    variant: str
    macs: int
    weights: int


# Counted from public files of these networks: CiMLoop and timeloop-exercises YAML, ZigZag and ZigZag-IMC
# ONNX models, the ONNX project's light models, and where they agree, torchvision's shapes.
REFERENCES = (
    Reference("resnet18", "torchvision", 1_814_073_344, 11_678_912),
    Reference("resnet18", "no padding", 1_438_384_832, 11_678_912),
    Reference("resnet50", "v1.5", 4_089_184_256, 25_502_912),
    Reference("vgg16", "torchvision", 15_470_264_320, 138_344_128),
    Reference("vgg19", "torchvision", 19_632_062_464, 143_652_544),
    Reference("alexnet", "one column, torchvision", 714_188_480, 61_090_496),
    Reference("alexnet", "grouped, Caffe", 654_560_384, 60_954_656),
    Reference("mobilenetv2", "width 1", 300_774_272, 3_469_760),
    Reference("mobilenetv3", "large, torchvision", 216_589_760, 5_451_272),
    Reference("densenet121", "torchvision", 2_834_161_664, 7_894_208),
    Reference("densenet201", "torchvision", 4_291_365_888, 19_783_872),
    Reference("squeezenet", "1.1", 349_151_936, 1_231_552),
    Reference("shufflenet", "v1", 124_664_528, 1_365_464),
    Reference("dscnn", "MLPerf Tiny", 2_656_768, 22_016),
    Reference("resnet8", "MLPerf Tiny", 12_501_632, 77_360),
)


def identified(workload: Workload) -> tuple[str, list[str]]:
    """(variant, notes): the variant whose totals the workload has ("" when none), and what to say."""
    plain = re.sub(r"[^a-z0-9]", "", workload.name.lower())
    known = [r for r in REFERENCES if r.network in plain]
    if not known:
        return "", []
    longest = max(len(r.network) for r in known)
    known = [r for r in known if len(r.network) == longest]
    near = min(known, key=lambda r: (abs(r.macs - workload.macs), abs(r.weights - workload.weights)))
    if (near.macs, near.weights) == (workload.macs, workload.weights):
        return near.variant, [f"totals are those of {near.network} ({near.variant})"]
    return "", [
        f"{near.network} ({near.variant}) has {near.macs:,} MACs and {near.weights:,} weights; this file differs by "
        f"{workload.macs - near.macs:+,} and {workload.weights - near.weights:+,}"
    ]
