"""Actions of every component for one mapped layer (IMC model note, 2.3), as exact integers where possible.

Every count is rounded up on its own, as the published model does. Values in and out have the layer's
``io`` bits, 8 unless it says otherwise; buffers and routers pack them densely into their words.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cimopt_tiled.mapping import COLS, GROUPS, MACROS, N_DIMS, N_LEVELS, ROWS, TILES, C, G, M, N, P, Q, R, S, Y

# What the hardware is built for: width of a macro's place in a tile buffer, and the tables' temporal input code.
IO_BITS = 8
GLB_WORD_BITS = 2048
ROUTER_WORD_BITS = 128

# The columns a layer's counts come in. The first N_DATA depend on the values in the cells: their
# energy is interpolated in the mean input and the mean weight slice.
COUNT_NAMES = (
    "cell_reads",
    "row_activations",
    "adc_conversions",
    "cell_writes",
    "weight_driver_rows",
    "input_buffer_reads",
    "input_buffer_writes",
    "output_buffer_reads",
    "output_buffer_writes",
    "router_transfers",
    "glb_reads",
    "glb_writes",
    "dram_bits",
    "cycles",
    "active_cells",
    "glb_bits",
    "arrays",
    "tiles",
    "routers",
    "rows",
    "columns",
    "reloads",
    "copies",
    "moved_bits",
)
N_COUNTS = len(COUNT_NAMES)
N_DATA = 5
N_ENERGY = 13
CELL_READS, ROW_ACTS, ADC_CONVS, CELL_WRITES, DRIVER_ROWS = range(5)
IN_READS, IN_WRITES, OUT_READS, OUT_WRITES, ROUTER, GLB_READS, GLB_WRITES, DRAM_BITS = range(5, 13)
# Dimensions that are cut inside an array.
CYCLES, ACTIVE_CELLS, GLB_BITS = range(13, 16)
# Units in use on average, rows and columns in use (of the largest part), how often the weights are
# brought in, how many copies of them work side by side, and bits that must pass the global buffer: what
# the physical preset's times need.
ARRAYS, TILES_USED, ROUTERS_USED, ROWS_USED, COLS_USED, RELOADS, COPIES, MOVED_BITS = range(16, 24)


@njit(cache=True)
def _ceil_div(a, b):
    return (a + b - 1) // b


@njit(cache=True)
def _extent(out, kernel, stride, dilation):
    """Input extent that ``out`` outputs of a window of ``kernel`` taps read along one axis."""
    return (out - 1) * stride + (kernel - 1) * dilation + 1


@njit(cache=True)
def over_all(x):
    return x[C] * x[M] * x[R] * x[S] * x[P] * x[Q] * x[G] * x[N] * x[Y]


@njit(cache=True)
def _over_inputs(x):
    return x[C] * x[R] * x[S] * x[P] * x[Q] * x[G] * x[N]


@njit(cache=True)
def _over_outputs(x):
    return x[M] * x[P] * x[Q] * x[G] * x[N]


@njit(cache=True)
def _over_weights(x):
    return x[C] * x[M] * x[R] * x[S] * x[G] * x[Y]


@njit(cache=True)
def _input_bits(x, step, io):
    """Bits of the input footprint of a tile ``x``; ``step`` is (stride h, w, dilation h, w)."""
    height = _extent(x[P], x[R], step[0], step[2])
    width = _extent(x[Q], x[S], step[1], step[3])
    return io * x[C] * x[G] * x[N] * height * width


@njit(cache=True)
def _input_fill_bits(tile, factor, t, cycles, step, io):
    """Bits written to one input buffer over the layer: a full footprint, then the sliding window's new part."""
    full = _input_bits(tile, step, io)
    axis, taps, k = (Q, S, 1) if t[Q] > 1 else (P, R, 0)
    shift = tile[axis] * factor[TILES, axis] * factor[GROUPS, axis] * step[k]
    extent = _extent(tile[axis], tile[taps], step[k], step[2 + k])
    fresh = full // extent * min(shift, extent)
    return cycles // t[axis] * (full + (t[axis] - 1) * fresh)


@njit(cache=True)
def _axis_exact(t_taps, taps, t_out, out, stride, dilation):
    """Summed input extent along one axis when the taps and the outputs are cut into steps in time.

    With stride and dilation 1 this is ``t_taps * out + t_out * (taps - t_taps)``.
    """
    return t_taps * (out - t_out) * stride + t_out * (taps - t_taps) * dilation + t_taps * t_out


@njit(cache=True)
def _glb_bits(dims, tile, factor, n3, t, cycles, step, io):
    """Bits of inputs and of outputs that pass between the global buffer and the routers."""
    if over_all(factor[GROUPS]) == 1:
        # One router group is in use: the published model then counts exact extents, not the largest tile.
        high = _axis_exact(t[R], dims[R], t[P], dims[P], step[0], step[2])
        wide = _axis_exact(t[S], dims[S], t[Q], dims[Q], step[1], step[3])
        inputs = io * t[M] * t[Y] * dims[C] * dims[G] * dims[N] * high * wide
        outputs = io * t[C] * t[R] * t[S] * t[Y] * _over_outputs(dims)
        return float(inputs), float(outputs)
    router_tile, spread = np.empty(N_DIMS, np.int64), np.empty(N_DIMS)
    for d in range(N_DIMS):
        router_tile[d] = min(tile[d] * factor[TILES, d], dims[d])
        spread[d] = n3[d] / t[d]
    inputs = cycles * _input_bits(router_tile, step, io) * _over_inputs(spread)
    outputs = cycles * io * _over_outputs(router_tile) * _over_outputs(spread)
    return inputs, outputs


@njit(cache=True)
def _tile(dims, factor):
    """Largest part of the layer in one tile: factors of rows, columns and macros, clipped to the layer."""
    tile = np.empty(N_DIMS, np.int64)
    for d in range(N_DIMS):
        tile[d] = min(factor[ROWS, d] * factor[COLS, d] * factor[MACROS, d], dims[d])
    return tile


@njit(cache=True)
def _needed_glb_bits(dims, factor, hold_q, step, io):
    """Global-buffer bits that hold the inputs and outputs unrolled in space (not clipped to the layer)."""
    f = np.ones(N_DIMS, np.int64)
    for level in range(N_LEVELS):
        for d in range(N_DIMS):
            f[d] *= factor[level, d]
    if hold_q:
        f[Q] = dims[Q]
    return _input_bits(f, step, io) + io * _over_outputs(f)


@njit(cache=True)
def _copies(factor, n3, t, d):
    """Mean number of idle copies fetched along ``d``: places taken over places in use."""
    return factor[GROUPS, d] / (n3[d] / t[d])


# Dimensions that are cut inside an array.
EXACT_DIMS = (C, M)


@njit(cache=True)
def _remainder_in_time(dims, factor, t, d):
    """Share of ``d`` really fetched, where it is cut in the array and the rest of it is a loop in time only.

    Elsewhere the published tool counts the largest part everywhere.
    """
    if t[d] == 1 or factor[MACROS, d] * factor[TILES, d] * factor[GROUPS, d] > 1:
        return 1.0
    return dims[d] / (factor[ROWS, d] * factor[COLS, d] * t[d])


@njit(cache=True)
def _weight_actions(out, dims, factor, n3, t, macs, cycles, arrays, columns, exact_in_time):
    """What it takes to bring the weights in, the weight loops outermost; DRAM_BITS counts cells here."""
    r = factor[ROWS, C] * factor[ROWS, R] * factor[ROWS, S]
    c = factor[COLS, Y] * factor[COLS, M]
    reload = _over_weights(t)
    above = _over_weights(factor[MACROS]) * _over_weights(factor[TILES]) * _over_weights(factor[GROUPS])
    copies = _copies(factor, n3, t, P) * _copies(factor, n3, t, Q) * _copies(factor, n3, t, N)
    out[CELL_WRITES] = dims[Y] * macs // cycles * reload
    out[DRIVER_ROWS] = arrays * _ceil_div(reload * r * c, columns)
    out[DRAM_BITS] = r * c * above * reload * copies
    if exact_in_time:
        for d in EXACT_DIMS:
            out[DRAM_BITS] *= _remainder_in_time(dims, factor, t, d)


@njit(cache=True)
def _compulsory_bits(dims, t, step, io):
    """Traffic that bounds time: inputs once per round of outputs and taps; outputs written once, and partial
    ones read and written again per further round of inputs.

    A lower bound, as rooflines are, and never more than what the energy counts: a sliding window stays in
    the tiles, and routers copy inputs to all that need them and add partial sums on the way.
    """
    inputs = _input_bits(dims, step, io) * t[M] * t[Y] * t[R] * t[S]
    rounds = t[C] * t[R] * t[S] * t[Y]
    return inputs + io * _over_outputs(dims) * (2.0 * rounds - 1.0)


@njit(cache=True)
def count_actions(dims, step, io, capacity, factor, left, is_sram, writes, pay_first_fill, exact_in_time, out):
    """Fill ``out`` (float64 ``(24,)``, columns ``COUNT_NAMES``) for one mapped layer.

    Args:
        dims: int64 ``(9,)``; ``dims[Y]`` is the number of weight slices.
        step: int64 ``(4,)``, stride and dilation of the input footprint.
        io: bits of an input or output value; partial sums travel as outputs do.
        capacity: int64 ``(5,)``.
        factor, left: as filled by :func:`cimopt_tiled.mapping.map_layer`.
        is_sram: output width is a loop over time.
        writes: weights are brought in (swapped, or a product of two activations). ``dram_bits`` are then
            the cells' bits, which for one-bit cells are the weights' bits.
        pay_first_fill: the first inputs and last outputs are written to the global buffer.
        exact_in_time: see the quirk ``weights_exact_in_time``.
    """
    t, n1, n2, n3 = left[5], left[2], left[3], left[4]
    cycles = over_all(t)
    arrays, tiles, routers = over_all(n1) // cycles, over_all(n2) // cycles, over_all(n3) // cycles
    r = factor[ROWS, C] * factor[ROWS, R] * factor[ROWS, S]
    c = factor[COLS, Y] * factor[COLS, M]
    macro = factor[MACROS]
    tile = _tile(dims, factor)
    word = IO_BITS * capacity[MACROS]
    macs = over_all(dims) // dims[Y]

    out[CELL_READS] = macs * dims[Y]
    out[ROW_ACTS] = arrays * cycles * r
    out[ADC_CONVS] = arrays * cycles * c

    fill = _input_fill_bits(tile, factor, t, cycles, step, io)
    out[IN_READS] = tiles * _ceil_div(cycles * io * r * _over_inputs(macro), word)
    out[IN_WRITES] = tiles * _ceil_div(fill, word)

    slices = factor[COLS, Y] * macro[Y]
    partial = cycles * io * c * _over_outputs(macro) * macro[Y]
    words = _ceil_div(partial, word)
    out[OUT_READS] = tiles * words
    out[OUT_WRITES] = tiles * (words + _ceil_div(words, slices))

    sent = math.ceil(fill * _over_inputs(factor[TILES]) / ROUTER_WORD_BITS)
    received = math.ceil(partial / slices * _over_outputs(factor[TILES]) / ROUTER_WORD_BITS)
    out[ROUTER] = routers * (sent + received)

    inputs, outputs = _glb_bits(dims, tile, factor, n3, t, cycles, step, io)
    back = math.ceil(outputs / GLB_WORD_BITS)
    out[GLB_READS] = math.ceil(inputs / GLB_WORD_BITS) + back
    out[GLB_WRITES] = back
    if pay_first_fill:
        out[GLB_WRITES] += _ceil_div(_input_bits(dims, step, io), GLB_WORD_BITS)
        out[GLB_WRITES] += _ceil_div(io * _over_outputs(dims), GLB_WORD_BITS)

    out[CELL_WRITES] = out[DRIVER_ROWS] = out[DRAM_BITS] = 0.0
    if writes:
        _weight_actions(out, dims, factor, n3, t, macs, cycles, arrays, capacity[COLS], exact_in_time)
    out[CYCLES] = cycles
    out[ACTIVE_CELLS] = macs * dims[Y] / cycles
    out[GLB_BITS] = _needed_glb_bits(dims, factor, is_sram, step, io)
    out[ARRAYS], out[TILES_USED], out[ROUTERS_USED] = arrays, tiles, routers
    out[ROWS_USED], out[COLS_USED] = r, c
    out[RELOADS] = _over_weights(t) if writes else 0.0
    out[COPIES] = (dims[P] / t[P]) * (dims[Q] / t[Q]) * (dims[N] / t[N])
    out[MOVED_BITS] = _compulsory_bits(dims, t, step, io)
