"""Compose configurations from the config groups of cimopt and of every installed plug-in.

The command line does this through Hydra; `compose([...])` does the same in a script or notebook.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from cimopt import plugins

CONF_MODULE = "cimopt.conf"
# Sections a person may add keys to without Hydra's "+": their owners check the names.
OPEN_SECTIONS = (
    "space.fix.", "space.rules.", "workload.", "design.", "tracking.tags.", "objective.limits.",
    "objective.goals", "search.start_values",
    "study.store=",
)  # fmt: skip


class PluginConfs(SearchPathPlugin):
    """Adds the config folders that installed plug-ins announce."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for package in plugins.conf_packages():
            search_path.append(provider="cimopt-plugin", path=f"pkg://{package}")


def register() -> None:
    """Make plug-ins' config groups visible to Hydra in this process (and no other program)."""
    Plugins.instance().register(PluginConfs)
    for plugin in plugins.installed("cimopt.evaluators"):
        if not _has_file("evaluator", plugin.name):  # a plug-in without settings needs no YAML
            ConfigStore.instance().store(
                group="evaluator", name=plugin.name, package=f"evaluator.{plugin.name}", node={}, provider="cimopt"
            )


def _has_file(group: str, name: str) -> bool:
    folders = (path for package in (CONF_MODULE, *plugins.conf_packages()) for path in _folders(package))
    return any((folder / group / f"{name}.yaml").is_file() for folder in folders)


@functools.cache
def _folders(package: str) -> tuple[Path, ...]:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return ()
    return tuple(Path(p) for p in spec.submodule_search_locations or ()) if spec else ()


def opened(argument: str) -> str:
    """`space.fix.x=1` -> `++space.fix.x=1`, so that open sections need no plus sign."""
    return f"++{argument}" if argument.startswith(OPEN_SECTIONS) else argument


def compose_config(overrides: Sequence[str] = (), config_name: str = "config") -> DictConfig:
    """The composed configuration, as Hydra gives it."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_module(CONF_MODULE, version_base="1.3"):
        return hydra_compose(config_name, overrides=[opened(o) for o in overrides])


def compose(overrides: Sequence[str] = (), config_name: str = "config") -> dict[str, Any]:
    """Plain values, ready for `cimopt.config.schema.parse`: compose(["space=sram", "seed=2"])."""
    return OmegaConf.to_container(compose_config(overrides, config_name), resolve=True)


def compose_within(overrides: Sequence[str], config_name: str = "config") -> dict[str, Any]:
    """`compose` from inside a running Hydra job, with its search path (--config-dir, hydra.searchpath)."""
    hydra = GlobalHydra.instance().hydra
    if hydra is None:
        return compose(overrides, config_name)
    config = hydra.compose_config(
        config_name, [opened(o) for o in overrides], RunMode.RUN, with_log_configuration=False
    )
    with open_dict(config):
        config.pop("hydra", None)
    return OmegaConf.to_container(config, resolve=True)
