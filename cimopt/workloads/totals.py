"""MACs, weights and activations per layer and in total, as numbers and as a text table.

One multiply-accumulate counts 1; bias is excluded; batch and repeats are included.
"""

from __future__ import annotations

from dataclasses import dataclass

from cimopt.types import Workload

TOTAL = "total"


@dataclass(frozen=True)
class LayerTotals:
    """Counts of one layer (or of the network, named "total"), over all repeats."""

    name: str
    layers: int
    macs: int
    weights: int  # stationary ones: 0 for a product of two activations
    activations: int  # output values


def layer_totals(workload: Workload) -> tuple[LayerTotals, ...]:
    """One entry per layer in order, then the network's."""
    rows = [
        LayerTotals(layer.name, layer.repeats, layer.macs, 0 if layer.dynamic else layer.weights, layer.activations)
        for layer in workload.layers
    ]
    whole = LayerTotals(TOTAL, workload.n_layers, workload.macs, workload.weights, workload.activations)
    return (*rows, whole)


def format_table(workload: Workload) -> str:
    """The counts as aligned text columns, thousands separated, the total last."""
    rows = [("layer", "repeats", "MACs", "weights", "activations")]
    for row in layer_totals(workload):
        rows.append((row.name, f"{row.layers:,}", f"{row.macs:,}", f"{row.weights:,}", f"{row.activations:,}"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    name = row[0].ljust(widths[0])
    counts = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "  ".join([name, *counts])
