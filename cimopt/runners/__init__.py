"""Runners: where evaluations happen. `base` is the contract; `serial`, `ray` and `auto` are the choices."""
