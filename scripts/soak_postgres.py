"""A PostgreSQL of one's own for tests and soak runs: loopback only, own port, gone afterwards.

Programs come from PATH or Debian's /usr/lib/postgresql; as root they run as the user `postgres`,
since PostgreSQL refuses root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path


def program(name: str) -> str | None:
    """A PostgreSQL program's path, the newest version's; None when it is not installed."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[4].split(".")[0]))
    return str(versions[-1]) if versions else shutil.which(name)


def why_not() -> str | None:
    """Why no PostgreSQL can be started here; None when it can."""
    if program("initdb") is None or program("pg_ctl") is None:
        return "PostgreSQL (initdb, pg_ctl) is not installed"
    if os.geteuid() == 0 and _other_user() is None:
        return "PostgreSQL refuses root, and there is no user postgres"
    return None


def _other_user() -> str | None:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Postgres:
    """Context manager: a fresh server in a temporary folder. `url(database)` makes the database when new."""

    def __init__(self, password: str = "secret") -> None:
        self._user = _other_user() if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="cimopt-postgres-"))
        self.port, self._password = free_port(), password
        self._made: set[str] = set()

    def __enter__(self) -> Postgres:
        secret = self.folder / "password"
        secret.write_text(self._password)
        if self._user:
            shutil.chown(self.folder, self._user)
            shutil.chown(secret, self._user)
        self._run(
            program("initdb"), "-D", self.data, "-U", "cimopt", "--pwfile", str(secret), "-A", "scram-sha-256", "-E", "UTF8",
            "--no-sync",
        )  # fmt: skip
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder} -c fsync=off -c max_connections=200"
        self._run(program("pg_ctl"), "-D", self.data, "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """At once, as a crash would; the write-ahead log brings everything back."""
        self._run(program("pg_ctl"), "-D", self.data, "-m", "immediate", "stop", check=False)

    def url(self, database: str) -> str:
        if database not in self._made:
            self._made.add(database)
            env = {**os.environ, "PGPASSWORD": self._password}
            command = [program("createdb"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "cimopt", database]
            subprocess.run(command, check=True, env=env, capture_output=True, cwd=self.folder)
        return f"postgresql://cimopt:{self._password}@127.0.0.1:{self.port}/{database}"

    def _run(self, *command: str, check: bool = True) -> None:
        who = {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid, "extra_groups": []} if self._user else {}
        done = subprocess.run(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            check=False, **who,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-500:]}")
