"""Run every installed evaluator once, so that what it compiles or builds is cached before the first search."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from hydra.errors import HydraException

from cimopt import plugins
from cimopt.config.compose import compose
from cimopt.errors import CimoptError
from cimopt.evaluators import Chain
from cimopt.space import from_config
from cimopt.workloads import load

SPACES = ("rram", "sram")  # both memories have kernels of their own
DESIGNS = 4


def prepare() -> Iterator[str]:
    """One line per evaluator and its spaces; one that needs other parameters or metrics is passed over."""
    network = (load("alexnet"),)
    for plugin in plugins.installed("cimopt.evaluators"):
        began, ran = time.perf_counter(), []
        for name in (*SPACES, plugin.name):  # a plug-in's own space usually has its name
            try:
                space = from_config(compose([f"space={name}"])["space"])
                settings = compose([f"evaluator={plugin.name}"])["evaluator"][plugin.name] or {}
                kind = plugins.load("cimopt.evaluators", plugin.name)
                chain = Chain([kind.from_config(settings)], space.parameters.all_names)
                chain.evaluate(space.designs(space.sample(DESIGNS, np.random.default_rng(0))), network, "layers")
            except (CimoptError, HydraException):
                continue  # no such space, or the evaluator is made for others or stands behind another one
            ran.append(name)
        if ran:
            yield f"prepared {plugin.name} on {' and '.join(ran)} in {time.perf_counter() - began:.1f} s"
