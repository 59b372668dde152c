"""Reaching a Ray cluster, and the sentences for what can go wrong on the way."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cimopt.errors import InputError, MissingExtraError


@dataclass(frozen=True)
class Resources:
    """What one worker holds: CPUs, GPUs, and memory in bytes (None: not counted)."""

    num_cpus: float = 1
    num_gpus: float = 0
    memory: int | None = None

    def __post_init__(self) -> None:
        for key, value in (("num_cpus", self.num_cpus), ("num_gpus", self.num_gpus), ("memory", self.memory)):
            fits = value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)
            if not fits or (value is None and key != "memory"):
                raise InputError(f"runner.{key}={value!r} must be a number >= 0")

    @property
    def options(self) -> dict[str, Any]:
        """Ray's own names."""
        listed = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus or None, "memory": self.memory}
        return {k: v for k, v in listed.items() if v is not None}

    @property
    def needs(self) -> dict[str, float]:
        """By the names Ray's nodes list them under."""
        listed = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": self.memory or 0}
        return {k: float(v) for k, v in listed.items() if v}

    def fit_in(self, there: dict[str, float]) -> int:
        """How many workers one node with these resources holds; 0 when none."""
        if not self.needs:
            return os.cpu_count() or 1
        return int(min(there.get(k, 0.0) // v for k, v in self.needs.items()))


# Without an address Ray would join whatever cluster was last started on this machine.
LOCAL = "local"


def connect(ray: Any, address: str | None, workers: int | None, resources: Resources) -> bool:
    """Join or start a cluster; returns whether this process has to shut it down."""
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False, "ignore_reinit_error": True}
    if address is None:
        keep_token_private()
        cpus = math.ceil(workers * resources.num_cpus) if workers else 0
        # 127.0.0.1 keeps a laptop's cluster off the network as far as Ray allows.
        options |= {
            "num_cpus": cpus or os.cpu_count() or 1,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
    else:
        show_token_if_asked(address)
        host = address.partition(":")[0]
        if host.startswith("127."):
            options["_node_ip_address"] = host  # `cimopt cluster local`: this process is on its head
    try:
        ray.init(address=address or LOCAL, **options)
    except ConnectionError as error:
        raise InputError(f"runner.address={address}: no Ray cluster answers there ({last_line(error)})") from error
    return True


def check_fits(ray: Any, resources: Resources) -> None:
    """A worker that no node can hold would be waited for without end."""
    nodes = [node["Resources"] for node in ray.nodes() if node.get("Alive")]
    if nodes and not any(resources.fit_in(node) for node in nodes):
        largest = {k: max(node.get(k, 0.0) for node in nodes) for k in resources.needs}
        wanted = ", ".join(f"runner.{n}={v:g}" for n, v in resources.options.items())
        held = ", ".join(f"{v:g} {k}" for k, v in largest.items())
        raise InputError(f"{wanted}: no node of the Ray cluster is that large (largest: {held})")


def held(ray: Any, resources: Resources) -> int:
    """How many workers the cluster's living nodes hold together."""
    return sum(resources.fit_in(node["Resources"]) for node in ray.nodes() if node.get("Alive"))


def keep_token_private() -> None:
    """A cluster of our own is opened by a token that this user alone can read: Ray would write it for all to read."""
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return
    token = Path.home() / ".ray" / "auth_token"
    try:
        token.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Ray keeps its token in {token.parent}, which cannot be made: {error.strerror}; set HOME"
        ) from None
    new = token.with_name(f".auth_token.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    try:
        os.link(new, token)  # whole, and only if there is none
    except FileExistsError:
        with contextlib.suppress(PermissionError):
            token.chmod(0o600)
    finally:
        new.unlink()


def show_token_if_asked(address: str) -> None:
    """Before joining a cluster by its address: by itself Ray shows this user's token only to one it finds (`auto`)."""
    if "RAY_AUTH_MODE" in os.environ or address == "auto" or not _asks_for_token(address):
        return
    # A private name of Ray 2.60; where it is gone, RAY_AUTH_MODE=token does the same.
    with contextlib.suppress(ImportError):
        from ray._private.authentication import authentication_token_setup as setup

        setup.logger.setLevel(logging.ERROR)  # it would warn that the token is used
        setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _asks_for_token(address: str) -> bool:
    """Whether the cluster refuses who shows none; asked in another process, where the refusal's log stays."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError):
        return False  # Ray says it better
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        told = subprocess.run(
            command, env={**os.environ, "RAY_AUTH_MODE": "disabled"}, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False  # no Ray there, it seems; `connect` will say so
    return "AuthToken" in told.stderr


def import_ray() -> Any:
    # Ray's usage statistics go out to the network; a tool must not do that unasked.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("runner=ray", "ray") from error
    return ray


def last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def pickle_sentence(make: Any, error: Exception) -> str:
    """Which attribute of what is sent cannot be pickled."""
    from ray import cloudpickle

    for name, value in _attributes(make):
        try:
            cloudpickle.dumps(value)
        except Exception:  # any failure here is the answer we look for
            return f"{name} ({type(value).__name__}) cannot be sent to Ray workers: {last_line(error)}"
    return f"{type(make).__name__} cannot be sent to Ray workers: {last_line(error)}"


def _attributes(thing: Any, path: str = "", depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Attributes, deepest first, so that the sentence names the culprit and not its owner."""
    for name, value in getattr(thing, "__dict__", {}).items():
        label = f"{path or type(thing).__name__}.{name}"
        if depth and hasattr(value, "__dict__"):
            yield from _attributes(value, label, depth - 1)
        yield label, value
