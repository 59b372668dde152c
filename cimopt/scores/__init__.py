"""Metrics to scores: objectives, the order of designs, Pareto fronts."""
