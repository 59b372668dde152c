"""Searching: the one loop, level after level, whole spaces, samplers against each other."""
