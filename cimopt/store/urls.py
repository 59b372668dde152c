"""Shared stores by URL: which driver serves them, which are refused, and how to wait for one.

Used for the study store and the tracking store alike. SQLAlchemy is imported when used.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from cimopt.errors import InputError, MissingExtraError, masked

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)

# File systems shared by several machines: SQLite's locks do not hold there.
NETWORK_FILE_SYSTEMS = (
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs",
    "9p", "afs", "ocfs2", "gfs2", "pvfs2", "panfs", "orangefs", "fuse.juicefs",
)  # fmt: skip
USE_INSTEAD = "use postgresql://user@host/database"
# A store that restarts is back within this time, or the search ends with its sentence.
PATIENCE_S = 600.0
LONGEST_PAUSE_S = 10.0


def driver_url(url: str, key: str) -> str:
    """The URL with the installed PostgreSQL driver named; other stores stay as given."""
    scheme, separator, rest = url.partition("://")
    if scheme not in ("postgres", "postgresql") or not separator:
        return url
    if find_spec("psycopg2") is not None:
        return f"postgresql://{rest}"
    if find_spec("psycopg") is None:
        raise MissingExtraError(f"{key}={masked(url)}", "postgres")
    return f"postgresql+psycopg://{rest}"


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite URL; None for other stores and for in-memory ones."""
    scheme, _, rest = url.partition("://")
    name = rest.removeprefix("/").partition("?")[0]
    return Path(name) if scheme.split("+")[0] == "sqlite" and name and not name.startswith(":memory:") else None


def refuse_unsafe_sqlite(url: str, key: str, *, many_writers: bool, mounts: str = "/proc/mounts") -> None:
    """InputError for an SQLite store on a network file system or with many writers."""
    file = sqlite_file(url)
    if file is None:
        return
    kind = network_file_system(file.parent, mounts)
    if kind is not None:
        raise InputError(f"{key}={url}: SQLite loses data on a network file system ({kind}); {USE_INSTEAD}")
    if many_writers:
        raise InputError(f"{key}={url}: SQLite takes one writer, and this sweep's jobs write at once; {USE_INSTEAD}")


def network_file_system(folder: Path, mounts: str = "/proc/mounts") -> str | None:
    """The kind of network file system that holds `folder`; None for a local one or where it is unknown."""
    try:
        lines = [line.split() for line in Path(mounts).read_text().splitlines()]
    except OSError:
        return None
    place = folder.absolute()
    held = [(Path(p[1].replace("\\040", " ")), p[2]) for p in lines if len(p) > 2]
    around = [(point, kind) for point, kind in held if place == point or point in place.parents]
    if not around:
        return None
    kind = max(around, key=lambda one: len(one[0].parts))[1]
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def patiently(action: Callable[[], Answer], *, what: str, passing: Callable[[Exception], bool]) -> Answer:
    """`action()`, tried again with growing pauses while its failure is a `passing` one, up to PATIENCE_S."""
    began, pause = time.monotonic(), 0.1
    while True:
        try:
            return action()
        except Exception as error:
            if not passing(error) or time.monotonic() - began > PATIENCE_S:
                raise
            if pause == 0.1:
                log.warning("%s does not answer; waiting for it (%s)", what, first_line(error))
        # Drivers that lost the same store must not all come back in the same moment.
        time.sleep(pause * random.uniform(0.7, 1.3))
        pause = min(2 * pause, LONGEST_PAUSE_S)


def first_line(error: BaseException) -> str:
    """The error's first line, without passwords."""
    text = str(error.__cause__ or error)
    return masked(" ".join(text.splitlines()[:1])) or type(error).__name__


def is_away(error: BaseException | None) -> bool:
    """Whether a database failure is the server's or the network's, so that trying again can help."""
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

    while error is not None:
        if isinstance(error, OperationalError | InterfaceError):
            return _not_refused(str(error))
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return True
        error = error.__cause__
    return False


def _not_refused(text: str) -> bool:
    """A wrong password, name or host never comes right by waiting."""
    hopeless = (
        "authentication failed",
        "does not exist",
        "no such table",
        "unable to open",
        "no password",
        "not known",
    )
    return not any(words in text for words in hopeless)


@contextmanager
def created_once(url: str) -> Iterator[None]:
    """Lets one process at a time create tables in a store; others wait, then find them made.

    PostgreSQL: an advisory lock of the database. SQLite: a lock file beside it. Other stores: nothing.
    """
    file = sqlite_file(url)
    if file is not None:
        with _file_lock(file):
            yield
    elif url.startswith("postgresql"):
        with _advisory_lock(url):
            yield
    else:
        yield


@contextmanager
def _file_lock(file: Path) -> Iterator[None]:
    try:
        handle = file.with_name(file.name + ".creating").open("w")
    except OSError:  # the store's own error names the folder better
        yield
        return
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _advisory_lock(url: str) -> Iterator[None]:
    """Released with the connection, so also when this process is killed."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), {"key": _lock_key()})
        yield
        connection.rollback()


def _lock_key() -> int:
    return int.from_bytes(hashlib.sha256(b"cimopt creates tables").digest()[:7], "big")
