"""Gives zoo layers the activation and weight statistics of the published layers of equal shape."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace

from cimopt.types import Layer, Workload


def shape_key(layer: Layer) -> tuple[int, ...]:
    """C, M per group, R, S, P, Q, G: what the published files record of a shape, strides aside."""
    g = layer.groups
    return (layer.in_channels // g, layer.out_channels // g, *layer.kernel, *layer.out_map, g)


def with_statistics(workload: Workload, published: Workload) -> Workload:
    """`workload` with statistics where `published` has a layer of equal shape, matched in order.

    A layer without a partner carries none; evaluators state what they assume then.
    """
    waiting: dict[tuple[int, ...], deque[Layer]] = defaultdict(deque)
    for layer in published.layers:
        waiting[shape_key(layer)].append(layer)
    return replace(workload, layers=tuple(_enriched(layer, waiting[shape_key(layer)]) for layer in workload.layers))


def _enriched(layer: Layer, partners: deque[Layer]) -> Layer:
    if not partners:
        return layer
    partner = partners.popleft()
    return replace(layer, mean_input=partner.mean_input, mean_weight_slice=partner.mean_weight_slice)
