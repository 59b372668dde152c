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
import time
from pathlib import Path
from typing import Any


def program(name: str) -> str | None:
    """A PostgreSQL program's path, the newest version's; None when it is not installed."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[4].split(".")[0]))
    return str(versions[-1]) if versions else shutil.which(name)


def why_not() -> str | None:
    """Why no PostgreSQL can be started here; None when it can."""
    if program("initdb") is None or program("postgres") is None:
        return "PostgreSQL is not installed"
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
        """Returns when connections are taken."""
        # The shell ends the server when this process closes its end of the pipe, or dies.
        guard = '"$@" & server=$!; cat >/dev/null; kill -QUIT $server; wait $server'
        settings = (
            "listen_addresses=127.0.0.1",
            "fsync=off",
            "max_connections=200",
            f"unix_socket_directories={self.folder}",
        )
        command = [
            program("postgres"),
            "-D",
            self.data,
            "-p",
            str(self.port),
            *(a for s in settings for a in ("-c", s)),
        ]
        with (self.folder / "log").open("a") as out:
            self._server = subprocess.Popen(
                ["sh", "-c", guard, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                **self._who,
            )
        ready = [program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        until = time.monotonic() + 60
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > until or self._server.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-500:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """At once, as a crash would; the write-ahead log brings everything back."""
        self._server.stdin.close()
        self._server.wait(30)

    def url(self, database: str) -> str:
        if database not in self._made:
            self._made.add(database)
            env = {**os.environ, "PGPASSWORD": self._password}
            command = [program("createdb"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "cimopt", database]
            subprocess.run(command, check=True, env=env, capture_output=True, cwd=self.folder)
        return f"postgresql://cimopt:{self._password}@127.0.0.1:{self.port}/{database}"

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            check=False, **self._who,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-500:]}")

    @property
    def _who(self) -> dict[str, Any]:
        """Another user than root, for subprocess."""
        if self._user is None:
            return {}
        return {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid, "extra_groups": []}
