"""Runs a Hydra app behind a verb: plug-ins' config groups, one-sentence errors, exit codes.

A job never exits the process (that would end a sweep): it writes `result.json`, and the exit code is
read from the files of the folders this launch used.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cimopt.commands.callbacks import FOLDERS
from cimopt.compose import CONF_MODULE, compose_config, opened, register
from cimopt.config import Config, parse
from cimopt.errors import CimoptError, InputError, unknown_name
from cimopt.report.result import RESULT
from cimopt.types import fingerprint

EXIT_OF_STATUS = {"ok": 0, "infeasible": 3, "interrupted": 130}
MAX_SLUG = 120


def slug(overrides: Sequence[str] | None = None) -> str:
    """A folder name from the overrides: the same overrides give the same name, whatever characters they hold."""
    given = overrides if overrides is not None else HydraConfig.get().overrides.task
    text = ",".join(sorted(given)) or "default"
    clean = re.sub(r"[^\w.,=+-]+", "_", text)
    if clean == text and len(clean) <= MAX_SLUG:
        return clean
    return f"{clean[:MAX_SLUG]}.{fingerprint(text)[:8]}"


def run(verb: str, config_name: str, job: Callable[[DictConfig], None], arguments: Sequence[str]) -> int:
    """Run the app; returns the exit code."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach us, not Hydra's own printer
    register()
    # Resolved once per run: a folder name must not change while the run goes on.
    OmegaConf.register_new_resolver("cimopt_slug", lambda _="": _safe_slug(), use_cache=False, replace=True)
    sys.argv = [f"cimopt {verb}", *(opened(a) for a in arguments)]
    started = time.time()
    FOLDERS.clear()
    try:
        hydra.main(version_base="1.3", config_path=f"pkg://{CONF_MODULE}", config_name=config_name)(job)()
    except CimoptError as error:
        return complain(str(error), error.exit_code)
    except (HydraException, OmegaConfBaseException) as error:
        return complain(_sentence(error), 2)
    except KeyboardInterrupt:
        return 130
    return _exit_code(started)


def _safe_slug() -> str:
    try:
        return slug()
    except ValueError:  # HydraConfig is not set yet while `--cfg job --resolve` prints
        return "default"


def complain(sentence: str, code: int) -> int:
    sys.stderr.write(f"cimopt: {sentence}\n")
    return code


def _sentence(error: Exception) -> str:
    """Hydra's and OmegaConf's many lines as one sentence that names the key and the nearest right one."""
    text = str(error)
    if match := re.search(r"Could not override '([^']*)'.*?\nNo match in the defaults list", text, re.S):
        return str(unknown_name("config group", match[1], _groups()))
    if match := re.search(r"Could not find '([^']*)/([^'/]*)'.*?Available options in '[^']*':\n(.*?)\nConfig search path", text, re.S):
        return str(unknown_name(match[1], match[2], re.findall(r"^\t(\S+)$", match[3], re.M)))
    if match := re.search(r"Key '([^']*)' is not in struct\s+full_key: (\S+)", text):
        return str(_unknown_key(match[2]))
    if match := re.search(r"Could not override '([^']*)'", text):
        return f"unknown config key '{match[1].lstrip('+~')}' (cimopt <verb> --cfg job prints every key)"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__


def _groups() -> list[str]:
    return ["space", "workload", "evaluator", "objective", "sampler", "runner", "tracking", "experiment"]


def _unknown_key(full_key: str) -> InputError:
    """Compose the defaults and name the nearest key at that place."""
    config: Any = compose_config(config_name="evaluate")
    *parents, last = full_key.split(".")
    for parent in parents:
        config = config.get(parent) if isinstance(config, DictConfig) else None
    near = list(config) if isinstance(config, DictConfig) else []
    place = f" in {'.'.join(parents)}" if parents else ""
    return unknown_name(f"config key{place}", last, near)


def checked(config: DictConfig, drop: Sequence[str] = ()) -> Config:
    """The typed configuration of a job; `drop` names the verb's own sections."""
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    return parse({k: v for k, v in plain.items() if k not in drop}, workload_set=_choice("workload"))


def _choice(group: str) -> str:
    """What was chosen for a config group, such as cnn4 or resnet18+vgg16."""
    return "+".join(re.findall(r"[\w.-]+", str(HydraConfig.get().runtime.choices.get(group))))


def output_folder() -> Path:
    """This job's run folder, absolute."""
    return Path(HydraConfig.get().runtime.output_dir).absolute()


def launch_folder() -> Path:
    """Where the command was started: relative paths mean this, also in a sweep."""
    return Path(HydraConfig.get().runtime.cwd).absolute()


def _exit_code(started: float) -> int:
    """The worst status of the results this launch wrote; 0 when it wrote none (--cfg, --help)."""
    worst = 0
    for folder in FOLDERS:
        for path in folder.rglob(RESULT):
            if path.stat().st_mtime >= started - 1:
                worst = max(worst, EXIT_OF_STATUS.get(json.loads(path.read_text())["status"], 1))
    return worst
