"""Hydra config groups of this plug-in."""
