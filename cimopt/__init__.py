"""cimopt finds the best in-memory-computing accelerator for a set of neural networks."""

__version__ = "0.1.0"
