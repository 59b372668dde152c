"""Fabrication cost from area and technology node: an evaluator that runs after an area model."""

from cimopt_techcost.evaluator import TechCost

__version__ = "0.1.0"
__all__ = ["TechCost"]
