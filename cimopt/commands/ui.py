"""`cimopt ui`: the MLflow UI on this folder's runs, on loopback unless told otherwise."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from cimopt.errors import MissingExtraError
from cimopt.store.urls import driver_url
from cimopt.tracking import default_uri


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="cimopt ui", description="Open the MLflow UI on the runs of this folder.")
    parser.add_argument("--uri", help="tracking store (default: runs/mlflow.db of this folder)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=5000)
    options = parser.parse_args(arguments)
    try:
        _check(options.uri)
        store = environment(options.uri or default_uri(Path.cwd()))
    except (MissingExtraError, FileNotFoundError) as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return 2
    sys.stderr.write(f"MLflow UI on http://{options.host}:{options.port} (Ctrl-C ends it)\n")
    sys.stderr.write(
        "The studies side by side: .../#/experiments/<id>/runs?viewStateShareKey=cimopt (docs/mlflow.md)\n"
    )
    try:
        return subprocess.run(server(options.host, options.port), check=False, env=store).returncode
    except KeyboardInterrupt:
        return 0


def server(host: str, port: int) -> list[str]:
    """The command; its store comes by the environment, as a URL may hold a password that others could see here."""
    return [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", "1"]


def environment(uri: str) -> dict[str, str]:
    quiet = {"MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return {**quiet, **os.environ, "MLFLOW_BACKEND_STORE_URI": driver_url(uri, "--uri")}


def _check(uri: str | None) -> None:
    if find_spec("mlflow") is None:
        raise MissingExtraError("cimopt ui", "mlflow")
    if uri is None and not (Path.cwd() / "runs" / "mlflow.db").exists():
        raise FileNotFoundError("this folder has no runs/mlflow.db yet; run cimopt search here first, or give --uri")
