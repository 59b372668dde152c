"""Jobs as Ray tasks: a window of them at a time, each return collected on its own."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, run_job, setup_globals
from hydra.errors import HydraException
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

if TYPE_CHECKING:
    from hydra_plugins.cimopt_ray_launcher.launcher import CimoptRayLauncher

log = logging.getLogger(__name__)


class JobLost(HydraException):
    """What a died job returns; Hydra's sweeper raises it after all jobs have run."""


@dataclass(frozen=True)
class Shared:
    """What every job of a sweep gets: sent to the cluster once."""

    context: HydraContext
    config: DictConfig
    task_function: TaskFunction
    singletons: dict[Any, Any]
    folder: str  # where the sweep was started: relative paths mean this


def launch(
    launcher: CimoptRayLauncher, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
) -> Sequence[JobReturn]:
    """All jobs' returns, in order; a job whose worker died has status FAILED and its reason."""
    setup_globals()
    configure_log(launcher.config.hydra.hydra_logging, launcher.config.hydra.verbose)
    Path(str(launcher.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
    ray, owned = _connect(launcher)
    try:
        return _run(ray, launcher, job_overrides, initial_job_idx)
    finally:
        if owned:
            ray.shutdown()


def _connect(launcher: CimoptRayLauncher) -> tuple[Any, bool]:
    # Ray's usage statistics go out to the network; a tool must not do that unasked.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if ray.is_initialized():
        return ray, False
    _token(launcher.address)
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": launcher.log_to_driver}
    if launcher.address is None:
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    # "local": without it Ray would join whatever cluster was last started on this machine.
    ray.init(address=launcher.address or "local", **options)
    return ray, True


def _token(address: str | None) -> None:
    """cimopt's care for Ray's token, where cimopt is installed; other apps get what Ray does by itself."""
    try:
        from cimopt.runners.ray_setup import keep_token_private, show_token_if_asked
    except ImportError:
        return
    if address is None:
        keep_token_private()
    else:
        show_token_if_asked(address)


def _run(
    ray: Any, launcher: CimoptRayLauncher, job_overrides: Sequence[Sequence[str]], first: int
) -> list[JobReturn]:  # fmt: skip
    state, folder = Singleton.get_state(), os.getcwd()
    shared = ray.put(Shared(launcher.hydra_context, launcher.config, launcher.task_function, state, folder))
    options = {k: v for k, v in launcher.task_options.items() if v is not None}
    # SPREAD: tasks that reserve nothing would all land on one node.
    task = ray.remote(scheduling_strategy="SPREAD", **options)(execute_job)
    at_once = launcher.n_jobs or max(int(ray.cluster_resources().get("CPU", 1)), 1)
    log.info("Ray launches %d jobs, %d at once", len(job_overrides), at_once)
    waiting = deque(enumerate(job_overrides))
    flying: dict[Any, int] = {}
    returns: list[JobReturn | None] = [None] * len(job_overrides)
    while waiting or flying:
        while waiting and len(flying) < at_once:
            k, overrides = waiting.popleft()
            log.info("\t#%d : %s", first + k, " ".join(filter_overrides(overrides)))
            flying[task.remote(shared, first + k, list(overrides))] = k
        ready, _ = ray.wait(list(flying), num_returns=1)
        for ref in ready:
            k = flying.pop(ref)
            returns[k] = _collect(ray, ref, first + k, job_overrides[k])
    configure_log(launcher.config.hydra.hydra_logging, launcher.config.hydra.verbose)
    return returns


def _collect(ray: Any, ref: Any, number: int, overrides: Sequence[str]) -> JobReturn:
    try:
        return ray.get(ref)
    except Exception as error:  # its worker or node died, or the job could not be rebuilt there
        log.error("job #%d was lost: %s", number, _first_line(error))
        failed = JobReturn(overrides=list(overrides), status=JobStatus.FAILED)
        failed.return_value = JobLost(f"job #{number} ({' '.join(overrides)}) was lost: {_first_line(error)}")
        return failed


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def execute_job(shared: Shared, number: int, overrides: list[str]) -> JobReturn:
    """Runs in a Ray worker."""
    setup_globals()
    Singleton.set_state(shared.singletons)
    before = os.getcwd()
    if Path(shared.folder).is_dir():
        os.chdir(shared.folder)
    try:
        config = shared.context.config_loader.load_sweep_config(shared.config, overrides)
        with open_dict(config):
            config.hydra.job.id = f"{config.hydra.job.name}_{number}"
            config.hydra.job.num = number
        HydraConfig.instance().set_config(config)
        done = run_job(
            hydra_context=shared.context, config=config, task_function=shared.task_function, job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )  # fmt: skip
    finally:
        os.chdir(before)
    return _sendable(done)


def _sendable(done: JobReturn) -> JobReturn:
    """A return value or exception that cannot travel is told in words."""
    from ray import cloudpickle

    try:
        cloudpickle.loads(cloudpickle.dumps(done._return_value))
    except Exception:  # any failure here means the same
        kept = done._return_value
        failed = isinstance(kept, BaseException)
        done.return_value = RuntimeError(f"{type(kept).__name__}: {kept}") if failed else None
    return done
