"""Evaluator `peak` for cimopt: see README.md."""

from cimopt_template.evaluator import Peak

__version__ = "0.1.0"
__all__ = ["Peak"]
