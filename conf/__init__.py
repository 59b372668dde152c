"""Hydra config groups, importable as `cimopt.conf`."""
