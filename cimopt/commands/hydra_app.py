"""Runs a Hydra app behind a verb: plug-ins' config groups, one-sentence errors, exit codes.

A job never exits the process (that would end a sweep): it writes `result.json`, and the exit code is
read from the files of the folders this launch used.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import shlex
import shutil
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
from cimopt.config.compose import CONF_MODULE, compose_config, opened, register
from cimopt.config.schema import Config, parse
from cimopt.errors import CimoptError, InputError, masked, unknown_name
from cimopt.report.result import ERROR, RESULT, write_json
from cimopt.types import fingerprint

EXIT_OF_STATUS = {"ok": 0, "infeasible": 3, "interrupted": 130}
MAX_SLUG = 120
CODES: list[int] = []  # of this process's jobs, should their files not be written
SWEEP = "multirun.yaml"  # Hydra writes it into a sweep's folder


def slug(overrides: Sequence[str] | None = None) -> str:
    """A folder name from the overrides: the same overrides give the same name, whatever characters they hold."""
    given = overrides if overrides is not None else HydraConfig.get().overrides.task
    text = masked(",".join(sorted(o.lstrip("+") for o in given)) or "default")
    clean = re.sub(r"[^\w.,=+-]+", "_", text)
    if clean == text and len(clean) <= MAX_SLUG:
        return clean
    return f"{clean[:MAX_SLUG]}.{fingerprint(text)[:8]}"


def run(verb: str, config_name: str, job: Callable[[DictConfig], Any], arguments: Sequence[str]) -> int:
    """Run the app; returns the exit code."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach us, not Hydra's own printer
    _mask_logs()
    register()
    OmegaConf.register_new_resolver("cimopt_slug", lambda _="": _safe_slug(), use_cache=False, replace=True)
    sys.argv = [f"cimopt {verb}", *(opened(a) for a in _sweep_first(arguments))]
    started = time.time()
    FOLDERS.clear()
    CODES.clear()
    try:
        hydra.main(version_base="1.3", config_path=f"pkg://{CONF_MODULE}", config_name=config_name)(Job(job))()
    except (HydraException, OmegaConfBaseException) as error:
        return complain(_sentence(error, config_name), 2)
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, FileNotFoundError) as error:
        if (sentence := _launchers_sentence(error)) is None:
            raise
        return complain(sentence, 2)
    return _exit_code(started)


def _sweep_first(arguments: Sequence[str]) -> list[str]:
    """`-m` may stand anywhere: Hydra's parser takes it only before all overrides or after them."""
    flags = [a for a in arguments if a in ("-m", "--multirun")]
    return [*flags[:1], *(a for a in arguments if a not in ("-m", "--multirun"))]


def _launchers_sentence(error: Exception) -> str | None:
    """What kept submitit from running a sweep's jobs; None for any other failure."""
    if 'detect "srun"' in str(error) or getattr(error, "filename", None) == "sbatch":
        return (
            "hydra/launcher=submitit_slurm: there is no SLURM (srun, sbatch) on this machine; start the sweep on a "
            "login node, or use hydra/launcher=ray or submitit_local"
        )
    if type(error).__module__.startswith("submitit."):
        reason = masked(" ".join(str(error).split()))[:300]
        return f"a job of this sweep was lost ({reason}); the same command again completes what is missing"
    return None


def _mask_logs() -> None:
    """Launchers log every job's overrides, a store's URL with its password among them."""
    make = logging.getLogRecordFactory()
    if getattr(make, "masks", False):
        return

    def masking(*given: Any, **named: Any) -> logging.LogRecord:
        record = make(*given, **named)
        if isinstance(record.msg, str) and "://" in (text := record.getMessage()):
            record.msg, record.args = masked(text), None
        return record

    masking.masks = True
    logging.setLogRecordFactory(masking)


class Job:
    """One job of a launch. Bad input ends this job with its sentence, never a sweep's other jobs.

    A class, not a closure, so that launchers can send it to other processes.
    """

    def __init__(self, function: Callable[[DictConfig], Any]) -> None:
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, config: DictConfig) -> Any:
        FOLDERS.append(output_folder())
        try:
            returned = self._function(config)
            (output_folder() / ERROR).unlink(missing_ok=True)  # an earlier try's
            return returned
        except CimoptError as error:
            CODES.append(complain(str(error), error.exit_code))
            _leave_only_the_reason(output_folder(), str(error), error.exit_code)
        except (HydraException, OmegaConfBaseException) as error:
            CODES.append(complain(_sentence(error, "evaluate"), 2))
            _leave_only_the_reason(output_folder(), str(error), 2)
        return None


def _leave_only_the_reason(folder: Path, reason: str, code: int) -> None:
    """Nothing half-written: a folder that only Hydra has touched keeps `error.json` and nothing else."""
    names = [p.name for p in folder.iterdir()] if folder.exists() else []
    if all(name in (".hydra", ".driver.lock", "config.yaml", ERROR) or name.endswith(".log") for name in names):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # a full disk takes no reason; the sentence has been printed
        write_json(folder / ERROR, {"status": "error", "reason": reason, "exit_code": code})


def _safe_slug() -> str:
    try:
        return slug()
    except ValueError:  # HydraConfig is not set yet while `--cfg job --resolve` prints
        return "default"


def complain(sentence: str, code: int) -> int:
    sys.stderr.write(f"cimopt: {sentence}\n")
    return code


def _sentence(error: Exception, config_name: str) -> str:
    """Hydra's and OmegaConf's many lines as one sentence that names the key and the nearest right one."""
    text = str(error)
    cause = str(error.__cause__ or "")
    if match := re.search(
        r"Could not find '([^']*)/([^'/]*)'.*?Available options in '[^']*':\n(.*?)\nConfig search path", text, re.S
    ):
        return str(unknown_name(match[1], match[2], re.findall(r"^\t(\S+)$", match[3], re.M)))
    if match := re.search(r"Could not override '([^']*)'", text):
        key = match[1].lstrip("+~")
        if "No match in the defaults list" in text and "." not in key:
            return str(unknown_name("config key", key, _keys_at([], config_name)))
        return str(_unknown_key(key, config_name))
    if match := re.search(r"Key '([^']*)' is not in struct\s+full_key: (\S+)", f"{text}\n{cause}"):
        return str(_unknown_key(match[2], config_name))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__


def _unknown_key(full_key: str, config_name: str) -> InputError:
    """The nearest right key at that place of the composed defaults."""
    path = full_key.split(".")
    for depth, part in enumerate(path):
        near = _keys_at(path[:depth], config_name)
        if part not in near:
            place = f" in {'.'.join(path[:depth])}" if depth else ""
            return unknown_name(f"config key{place}", part, near)
    return InputError(f"config key '{full_key}' cannot be set (cimopt <verb> --cfg job prints every key)")


def _keys_at(path: Sequence[str], config_name: str) -> list[str]:
    # With the choices that were given: `objective=edap_vs_cost` has other keys than the default.
    choices = [a for a in sys.argv[1:] if re.match(r"\w+=", a) and "," not in a.partition("[")[0]]
    try:
        config: Any = compose_config(choices, config_name=config_name)
    except (HydraException, OmegaConfBaseException):
        config = compose_config(config_name=config_name)
    for part in path:
        config = config.get(part) if isinstance(config, DictConfig) else None
    return [str(k) for k in config] if isinstance(config, DictConfig) else []


def checked(config: DictConfig, drop: Sequence[str] = ()) -> Config:
    """The typed configuration of a job; `drop` names the verb's own sections."""
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    return parse({k: v for k, v in plain.items() if k not in drop}, workload_set=_choice("workload"))


def _choice(group: str) -> str:
    """What was chosen for a config group, such as cnn4 or resnet18+vgg16."""
    return "+".join(re.findall(r"[\w.-]+", str(HydraConfig.get().runtime.choices.get(group) or "")))


def output_folder() -> Path:
    """This job's run folder, absolute."""
    return Path(HydraConfig.get().runtime.output_dir).absolute()


def command_line(verb: str) -> str:
    """The command that made this run, as a person would type it, passwords masked."""
    overrides = " ".join(shlex.quote(o.removeprefix("++")) for o in HydraConfig.get().overrides.task)
    return masked(f"cimopt {verb} {overrides}".strip())


def launch_folder() -> Path:
    """Where the command was started: relative paths mean this, also in a sweep."""
    return Path(HydraConfig.get().runtime.cwd).absolute()


def _exit_code(started: float) -> int:
    """The worst status of the results this launch wrote; 0 when it wrote none (--cfg, --help)."""
    worst = max(CODES, default=0)
    # A sweep's jobs are sub-folders; a job's own sub-folders (levels, optima) do not speak for it.
    jobs = [job for folder in FOLDERS for job in (folder, *(folder.iterdir() if (folder / SWEEP).exists() else ()))]
    for job in jobs:
        for path in (job / RESULT, job / ERROR):
            if path.exists() and path.stat().st_mtime >= started - 1:
                left = json.loads(path.read_text())
                worst = max(worst, left.get("exit_code") or EXIT_OF_STATUS.get(left["status"], 1))
    return worst
