"""Tiled in-memory-computing model: arrays in macros in tiles on routers, weights stationary or swapped."""

__version__ = "0.1.0"
