"""Zero-skipping in-memory-computing arrays, cycle-exact ("Breaking Barriers", Crafton et al., 2020)."""

from cimopt_zeroskip.allocation import allocate
from cimopt_zeroskip.bits import op_cycles, popcounts
from cimopt_zeroskip.mapping import ArraySpec, im2col, map_layer
from cimopt_zeroskip.queueing import Run, simulate

__version__ = "0.1.0"

__all__ = ["ArraySpec", "Run", "allocate", "im2col", "map_layer", "op_cycles", "popcounts", "simulate"]
