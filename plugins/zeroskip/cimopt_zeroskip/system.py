"""What is around the arrays (Breaking Barriers, section IV): PEs that hold blocks, a mesh, vector units, buffers.

A PE holds 64 arrays and several whole blocks; a block lies in one PE unless it is larger than a PE. A router per
PE joins an N x N mesh; inputs go from the global buffer to PEs, partial sums from PEs to vector units. Packets
carry their destination, one header flit each.

The bounds say how many cycles each shared resource is busy for one image if nothing else slows it: no queue in
the network is simulated. The largest of them and of the arrays' own cycles is the throughput limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cimopt.errors import InputError
from cimopt_zeroskip.chip import ChipRun, needed_arrays, plan_and_run
from cimopt_zeroskip.mapping import ArraySpec
from cimopt_zeroskip.work import LayerWork

ARRAYS_PER_PE = 64
HEADER_FLITS = 1
BITS_PER_MB = 8 * 1024 * 1024


@dataclass(frozen=True)
class NetworkSpec:
    """The network. The paper gives its topology, not its widths: the defaults are ours.

    Attributes:
        link_bits: bits a link or port moves per network cycle, in each direction (the router of the tables).
        cycles_per_array_cycle: network cycles per array cycle (10: a 1 GHz mesh beside 100 MHz arrays).
        vector_units: units that accumulate partial sums, each with one port; None: two per row of the mesh.
        buffer_ports: ports of the global buffer; None: one per row of the mesh.
        sum_bits: bits of a partial sum; None: weight + input bits + log2(rows), which loses nothing.
    """

    link_bits: int = 128
    cycles_per_array_cycle: int = 10
    vector_units: int | None = None
    buffer_ports: int | None = None
    sum_bits: int | None = None

    def __post_init__(self) -> None:
        for key, needed in (("link_bits", True), ("cycles_per_array_cycle", True), ("vector_units", False),
                            ("buffer_ports", False), ("sum_bits", False)):  # fmt: skip
            value = getattr(self, key)
            if (needed or value is not None) and not (type(value) is int and value >= 1):
                raise InputError(f"{key}={value!r} must be a whole number >= 1" + ("" if needed else ", or null"))


@dataclass(frozen=True)
class Packing:
    """Blocks in PEs.

    Attributes:
        pes: PEs needed.
        lost: arrays of those PEs that no block fills.
        counted: PEs by counting arrays alone.
        pe_of: per block copy the PE it lies in (the first, for a block larger than a PE), int64 ``(copies,)``.
        layer_of, block_of: whose copy it is, int64 ``(copies,)`` each.
    """

    pes: int
    lost: int
    counted: int
    pe_of: np.ndarray
    layer_of: np.ndarray
    block_of: np.ndarray


def pack(sizes: Sequence[int], capacity: int = ARRAYS_PER_PE) -> tuple[np.ndarray, int]:
    """First-fit decreasing: the PE of each block, int64 ``(blocks,)``, and the PEs used.

    A block larger than a PE takes whole PEs of its own, and its rest is packed like a block.
    Blocks of one size are placed together, so the cost is blocks + PEs x distinct sizes.
    """
    given = np.asarray(sizes, dtype=np.int64)
    if given.size and given.min() < 1:
        raise InputError("block sizes must be whole numbers >= 1")
    whole, rest = np.divmod(given, capacity)
    pe_of = np.full(len(given), -1, dtype=np.int64)
    used = 0
    for i in np.flatnonzero(whole):
        pe_of[i], used = used, used + int(whole[i])
    left = np.zeros(used, dtype=np.int64)
    for size in np.unique(rest[rest > 0])[::-1]:
        here = np.flatnonzero(rest == size)
        room = left // size
        missing = len(here) - int(room.sum())
        new = max(0, -(-missing // (capacity // size)))
        left = np.append(left, np.full(new, capacity))
        places = np.repeat(np.arange(len(left)), left // size)[: len(here)]
        left -= size * np.bincount(places, minlength=len(left))
        pe_of[here] = np.where(pe_of[here] < 0, places, pe_of[here])
    return pe_of, len(left)


def pack_chip(works: Sequence[LayerWork], copies: Sequence[np.ndarray], capacity: int = ARRAYS_PER_PE) -> Packing:
    """Every block copy of a planned chip in PEs."""
    layer = np.concatenate([np.full(int(c.sum()), i) for i, c in enumerate(copies)])
    block = np.concatenate([np.repeat(np.arange(len(c)), c) for c in copies])
    sizes = np.array([w.mapped.arrays_per_block for w in works])[layer]
    pe_of, pes = pack(sizes, capacity)
    total = int(sizes.sum())
    return Packing(pes, pes * capacity - total, -(-total // capacity), pe_of, layer, block)


@dataclass(frozen=True)
class Traffic:
    """Bits per image. Per layer: ``inputs`` to and ``sums`` from all blocks, headers included, float64 ``(L,)``.

    ``operands``: what each copy of a block is written with, ``(blocks,)`` per layer; 0 for stored weights.
    """

    inputs: np.ndarray
    sums: np.ndarray
    input_packets: tuple[np.ndarray, ...]
    sum_packets: tuple[np.ndarray, ...]
    operands: tuple[np.ndarray, ...]


def traffic(works: Sequence[LayerWork], network: NetworkSpec) -> Traffic:
    """Every operation of every block receives its slice of inputs and sends its partial sums, whoever runs it."""
    inputs, sums, in_packets, out_packets, operands = [], [], [], [], []
    for work in works:
        m, spec = work.mapped, work.mapped.spec
        outputs = min(m.arrays_per_block * spec.xbar_cols // spec.cells_per_weight, m.layer.out_channels)
        sum_bits = network.sum_bits or partial_sum_bits(spec)
        packet_in = _flits(m.block_rows * spec.input_bits, network) * network.link_bits
        packet_out = np.full(m.blocks, _flits(np.array(outputs * sum_bits), network) * network.link_bits)
        in_packets.append(packet_in)
        out_packets.append(packet_out)
        values = m.block_rows * (m.layer.out_channels // m.layer.groups) * m.layer.dynamic
        operands.append(_flits(values * spec.weight_bits, network) * float(network.link_bits * m.layer.dynamic))
        inputs.append(float(packet_in.sum()) * m.patches)
        sums.append(float(packet_out.sum()) * m.patches)
    return Traffic(np.array(inputs), np.array(sums), tuple(in_packets), tuple(out_packets), tuple(operands))


def partial_sum_bits(spec: ArraySpec) -> int:
    """Bits that hold any sum of one block: weight bits + input bits + ceil(log2(rows))."""
    return spec.weight_bits + spec.input_bits + int(np.ceil(np.log2(spec.xbar_rows)))


def _flits(bits: np.ndarray, network: NetworkSpec) -> np.ndarray:
    return -(-bits // network.link_bits) + HEADER_FLITS


def network_bounds(
    works: Sequence[LayerWork], run: ChipRun, network: NetworkSpec, n_pes: int, packing: Packing | None = None
) -> dict[str, float]:
    """Array cycles per image that each resource is busy: name -> cycles.

    ``pe_input`` and ``pe_output``: the busiest PE's ports (a block's operations are shared equally by its
    copies); ``buffer_output``: ports of the global buffer; ``vector_input``: ports of the vector units;
    ``bisection``: half of all traffic crosses the middle of the mesh, N links each way.
    """
    bits = traffic(works, network)
    placed = packing or pack_chip(works, run.copies)
    load_in, load_out = np.zeros(placed.pes), np.zeros(placed.pes)
    for i, work in enumerate(works):
        here = np.flatnonzero(placed.layer_of == i)
        block = placed.block_of[here]
        share = work.mapped.patches / np.asarray(run.copies[i], dtype=np.float64)[block]
        np.add.at(load_in, placed.pe_of[here], share * bits.input_packets[i][block] + bits.operands[i][block])
        np.add.at(load_out, placed.pe_of[here], share * bits.sum_packets[i][block])
    side = mesh_side(n_pes)
    operands = sum(float(each @ given) for each, given in zip(bits.operands, run.copies, strict=True))
    total_in, total_out = float(bits.inputs.sum()) + operands, float(bits.sums.sum())
    per_link = network.link_bits * network.cycles_per_array_cycle
    return {
        "pe_input": float(load_in.max()) / per_link,
        "pe_output": float(load_out.max()) / per_link,
        "buffer_output": total_in / ((network.buffer_ports or side) * per_link),
        "vector_input": total_out / ((network.vector_units or 2 * side) * per_link),
        "bisection": 0.5 * (total_in + total_out) / (2 * side * per_link),
    }


def mesh_side(n_pes: int) -> int:
    """N of the smallest N x N mesh with a router per PE."""
    return int(np.ceil(np.sqrt(n_pes)))


def mean_hops(n_pes: int) -> float:
    """Mean distance of two nodes of an N x N mesh: 2/3 (N - 1/N)."""
    side = mesh_side(n_pes)
    return 2 / 3 * (side - 1 / side)


def buffered_bits(works: Sequence[LayerWork]) -> float:
    """Bits of feature maps that a pipelined chip holds: every layer's input map, twice (one filled, one read).

    An input map is taken as the positions its patches cover, stride included; a product's second operand is one too.
    """
    total = 0.0
    for work in works:
        layer = work.mapped.layer
        height = (layer.out_map[0] - 1) * layer.stride[0] + 1
        width = (layer.out_map[1] - 1) * layer.stride[1] + 1
        total += 2.0 * layer.in_channels * height * width * layer.batch * work.mapped.spec.input_bits
        total += 2.0 * layer.weights // layer.repeats * layer.weight_bits * layer.dynamic
    return total


@dataclass(frozen=True)
class SystemReport:
    """Arrays, packing and network of one planned chip.

    Attributes:
        cycles: the limit of throughput, all resources considered.
        bottleneck: "arrays" or the network resource that sets it.
        bounds: cycles per resource.
        packing: blocks in PEs.
        buffer_bits: feature maps to hold.
    """

    cycles: float
    bottleneck: str
    bounds: dict[str, float]
    packing: Packing
    buffer_bits: float


def system_report(
    works: Sequence[LayerWork], run: ChipRun, network: NetworkSpec, n_pes: int, arrays_per_pe: int = ARRAYS_PER_PE
) -> SystemReport:
    """Say whether arrays or network limit a planned chip."""
    packing = pack_chip(works, run.copies, arrays_per_pe)
    bounds = {"arrays": run.cycles, **network_bounds(works, run, network, max(n_pes, packing.pes), packing)}
    bottleneck = max(bounds, key=bounds.__getitem__)
    return SystemReport(bounds[bottleneck], bottleneck, bounds, packing, buffered_bits(works))


def plan_packed(
    works: Sequence[LayerWork], n_pes: int, policy: str, dataflow: str, arrays_per_pe: int = ARRAYS_PER_PE
) -> ChipRun:
    """As `chip.plan_and_run`, with copies that really fit: blocks lie in PEs and PEs are not split.

    The arrays handed to the policy shrink by what packing lost until the packed chip fits.

    Raises:
        InputError: one copy of the network, packed, needs more PEs.
    """
    budget, least = n_pes * arrays_per_pe, needed_arrays(works)
    while budget >= least:
        run = plan_and_run(works, budget, policy, dataflow)
        if pack_chip(works, run.copies, arrays_per_pe).pes <= n_pes:
            return replace(run, n_arrays=n_pes * arrays_per_pe)
        # Fewer arrays than were used: at least one copy goes.
        budget = int(run.layer_arrays.sum()) - 1
    raise InputError(f"one copy of the network, packed into whole PEs, does not fit into {n_pes} PEs")
