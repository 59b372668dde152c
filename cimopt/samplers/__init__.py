"""Samplers: the four-phase genetic algorithm, and Optuna's own by name."""
