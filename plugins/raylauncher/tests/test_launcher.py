"""Hydra's own launcher suite, and a job whose worker dies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.core.utils import JobStatus
from hydra.plugins.launcher import Launcher
from hydra.test_utils.launcher_common_tests import IntegrationTestSuite, LauncherTestSuite
from hydra.version import VersionBase
from hydra_plugins.cimopt_ray_launcher import _core
from hydra_plugins.cimopt_ray_launcher.launcher import CimoptRayLauncher

NAME = "cimopt_ray"


@pytest.fixture(scope="module", autouse=True)
def one_ray():
    """One local Ray for the suite's in-process tests: starting it takes seconds."""
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield ray
    ray.shutdown()


@pytest.fixture(autouse=True)
def no_earlier_hydra():
    """Other tests of a session leave Hydra's version base, which decides whether jobs change their folder."""
    state = Singleton.get_state()
    Singleton._instances.pop(VersionBase, None)
    yield
    Singleton.set_state(state)


def test_hydra_finds_it():
    assert CimoptRayLauncher.__name__ in [p.__name__ for p in Plugins.instance().discover(Launcher)]


@pytest.mark.parametrize(("launcher_name", "overrides"), [(NAME, [])])
class TestSuite(LauncherTestSuite):
    """Hydra's. Workers import this plug-in from disk when they start, so its code must not change meanwhile."""


# More than a minute of processes that each start a Ray of their own.
@pytest.mark.skipif(not os.environ.get("CIMOPT_SOAK"), reason="long; make soak runs it")
@pytest.mark.parametrize(
    ("task_launcher_cfg", "extra_flags"),
    [({}, ["-m", f"hydra/launcher={NAME}", "hydra.launcher.num_cpus=0"])],
)
class TestIntegration(IntegrationTestSuite):
    """Hydra's; each of its tests starts a Ray of its own in another process."""


def test_a_dying_job_leaves_the_others_returns(hydra_sweep_runner, hydra_restore_singletons, tmpdir, monkeypatch):
    marks = Path(str(tmpdir)) / "tries"

    def job(config):
        with marks.open("a") as file:
            file.write(f"{config.x}\n")
        if config.x == 2:
            os.kill(os.getpid(), 9)
        return 10 * config.x

    returns = []
    run = _core._run
    monkeypatch.setattr(_core, "_run", lambda *given: returns.extend(run(*given)) or returns)
    sweep = hydra_sweep_runner(
        calling_file=None, calling_module="hydra.test_utils.a_module", task_function=job, config_path="configs",
        config_name="compose.yaml", overrides=[f"hydra/launcher={NAME}", "+x=1,2,3"], temp_dir=tmpdir,
    )  # fmt: skip
    with pytest.raises(_core.JobLost, match=r"job #1 \(\+x=2\) was lost: WorkerCrashedError"), sweep:
        pass
    assert [one.status for one in returns] == [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.COMPLETED]
    assert (returns[0].return_value, returns[2].return_value) == (10, 30)
    assert sorted(marks.read_text().split()) == ["1", "2", "2", "3"], "tried max_retries times more, the others once"
