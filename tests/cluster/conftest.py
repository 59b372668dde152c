"""Services for these tests: a PostgreSQL per session, a slow model whose calls are counted."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def _script(name: str):
    """A module of scripts/, which is no package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def script():
    """Loads a module of scripts/ by its name."""
    return _script


@pytest.fixture(scope="session")
def postgres():
    """A server on loopback; stopped at the end of the session."""
    module = _script("soak_postgres")
    reason = module.why_not()
    if reason:
        pytest.skip(f"{reason} (scripts/ci_services.sh installs it)")
    with module.Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def soak_script():
    """The soak script as a module."""
    return _script("soak_faults")


@pytest.fixture(scope="session")
def listeners():
    """Addresses on which something of this machine listens at a port, in the kernel's hexadecimal words."""
    if not Path("/proc/net/tcp").exists():
        pytest.skip("no /proc/net here")
    listens = "0A"

    def listeners(port):
        tables = [Path(f"/proc/net/{kind}") for kind in ("tcp", "tcp6")]
        lines = [line.split() for t in tables if t.exists() for line in t.read_text().splitlines()[1:]]
        places = [line[1].split(":") for line in lines if line[3] == listens]
        return {address for address, number in places if int(number, 16) == port}

    return listeners
