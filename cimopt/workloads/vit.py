"""Vision transformers: Dosovitskiy et al. 2020, arXiv 2010.11929, table 1; query, key and value listed apart."""

from __future__ import annotations

from collections.abc import Mapping

from cimopt.errors import InputError
from cimopt.types import Value, Workload
from cimopt.workloads.builder import FeatureMap, Network
from cimopt.workloads.knobs import Knob

# The defaults are ViT-B/16.
KNOBS: dict[str, Knob] = {
    "depth": Knob(12, high=4096),
    "width": Knob(768),
    "heads": Knob(12),
    "mlp_ratio": Knob(4.0, low=0.1, high=64, real=True),
    "patch": Knob(16, unit="px"),
    "resolution": Knob(224, low=8, high=8192, unit="px"),
    "classes": Knob(1000),
    "weight_bits": Knob(8, high=16, unit="bit"),
    "activation_bits": Knob(8, high=16, unit="bit"),
}


def check(p: Mapping[str, Value], where: str) -> None:
    """What single values cannot tell."""
    if p["width"] % p["heads"]:
        raise InputError(f"{where}: width={p['width']} is no multiple of heads={p['heads']}")
    if round(p["width"] * p["mlp_ratio"]) < 1:
        raise InputError(f"{where}: width={p['width']} times mlp_ratio={p['mlp_ratio']} leaves no channel")
    if p["patch"] > p["resolution"]:
        raise InputError(f"{where}: patch={p['patch']} is larger than resolution={p['resolution']}")


def build(name: str, p: Mapping[str, Value]) -> Workload:
    """The network of resolved parameters; a class token joins the patches."""
    net = Network(
        name, variant=f"{p['depth']} blocks of width {p['width']}, patches of {p['patch']} px", source="arXiv 2010.11929, table 1 (family vit)",
        input_shape=(3, p["resolution"], p["resolution"]),
    )  # fmt: skip
    net.weight_bits, net.activation_bits = p["weight_bits"], p["activation_bits"]
    width = p["width"]
    patches = net.conv(net.input, "conv_proj", width, p["patch"], stride=p["patch"])
    x = FeatureMap(width, patches.height * patches.width + 1, 1)
    net.repeats = p["depth"]
    block = "encoder.layers"
    for part in ("query", "key", "value"):
        net.linear(x, f"{block}.self_attention.{part}", width)
    y = net.linear(net.attention(x, f"{block}.self_attention", p["heads"]), f"{block}.self_attention.out_proj", width)
    x = net.linear(net.linear(y, f"{block}.mlp.0", round(width * p["mlp_ratio"])), f"{block}.mlp.3", width)
    net.repeats = 1
    net.linear(FeatureMap(width, 1, 1), "heads.head", p["classes"])
    return net.workload(p, fold=True)
