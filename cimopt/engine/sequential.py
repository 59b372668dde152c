"""Sequential search (the paper's section IV-G, Fig. 7): one level of parameters after another.

Every parameter of a space carries its level. From a start design, each level is searched by the same loop
with all other parameters fixed, and hands its best design to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cimopt.config.schema import Config
from cimopt.errors import InputError, unknown_name
from cimopt.space import SearchSpace, flat
from cimopt.types import LEVELS, Value


def start_design(space: SearchSpace, start: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The largest or the (upper) median choice of every parameter, with own values where given.

    Raises InputError for an unknown parameter or a value that is no choice.
    """
    values = flat(values)
    for name in values:
        if name not in space.names:
            raise unknown_name("parameter in search.start_values", name, space.names)
    design: dict[str, Value] = {}
    ordered = sorted(space.parameters.parameters, key=lambda p: p.depends_on is not None)
    for p in ordered:
        choices = p.choices
        if p.depends_on is not None:
            parent = next(q for q in space.parameters.parameters if q.name == p.depends_on)
            choices = p.by_parent[parent.choices.index(design[parent.name])]
        place = len(choices) - 1 if start == "largest" else len(choices) // 2
        design[p.name] = values.get(p.name, choices[place])
    if not space.valid(space.encode(design)[None, :])[0]:
        raise InputError(
            f"search.start={start}: the space refuses that design (a rule, or parameters that make no network); give "
            "others by search.start_values.<parameter>=..."
        )
    return design


def level_config(config: Config, space: SearchSpace, level: str, design: Mapping[str, Value]) -> Config | None:
    """The configuration that searches one level around a design; None when the space has nothing there."""
    free = [p.name for p in space.parameters.parameters if p.level == level]
    if not free:
        return None
    fixed = {name: design[name] for name in space.names if name not in free}
    section: dict[str, Any] = {**config.space, "fix": {**dict(config.space.get("fix") or {}), **fixed}}
    return replace(config, space=section)


def check_levels(levels: Any) -> list[str]:
    """The levels to search, in order, each once."""
    if not isinstance(levels, list | tuple) or not levels or len(set(levels)) != len(levels):
        raise InputError(f"search.levels={levels!r} must list some of {', '.join(LEVELS)}, each once")
    for level in levels:
        if level not in LEVELS:
            raise unknown_name("level in search.levels", level, LEVELS)
    return list(levels)
