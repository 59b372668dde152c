"""The launcher's front and its config; Ray is imported when a sweep starts, since Hydra scans this file every time.

No postponed annotations here: Hydra runs this file before it is in sys.modules, where dataclasses would look them up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class CimoptRayLauncherConf:
    """The keys of `hydra.launcher`; the README says what each means."""

    _target_: str = "hydra_plugins.cimopt_ray_launcher.launcher.CimoptRayLauncher"
    address: str | None = None
    n_jobs: int | None = None
    num_cpus: float = 0
    num_gpus: float = 0
    memory: int | None = None
    max_retries: int = 1
    log_to_driver: bool = True


ConfigStore.instance().store(
    group="hydra/launcher", name="cimopt_ray", node=CimoptRayLauncherConf, provider="cimopt-raylauncher"
)


class CimoptRayLauncher(Launcher):
    """Each job of a sweep is one Ray task; a job that dies is a failed JobReturn, never a lost sweep."""

    def __init__(
        self, address: str | None = None, n_jobs: int | None = None, num_cpus: float = 0, num_gpus: float = 0,
        memory: int | None = None, max_retries: int = 1, log_to_driver: bool = True,
    ) -> None:  # fmt: skip
        self.address, self.n_jobs, self.log_to_driver = address, n_jobs, log_to_driver
        self.task_options = {
            "num_cpus": num_cpus, "num_gpus": num_gpus or None, "memory": memory, "max_retries": max_retries,
        }  # fmt: skip
        self.config: DictConfig | None = None
        self.task_function: TaskFunction | None = None
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config, self.task_function, self.hydra_context = config, task_function, hydra_context

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from hydra_plugins.cimopt_ray_launcher import _core

        return _core.launch(self, job_overrides, initial_job_idx)
