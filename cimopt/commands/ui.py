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
from cimopt.tracking import default_uri


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="cimopt ui", description="Open the MLflow UI on the runs of this folder.")
    parser.add_argument("--uri", help="tracking store (default: runs/mlflow.db of this folder)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=5000)
    options = parser.parse_args(arguments)
    try:
        _check(options.uri)
    except (MissingExtraError, FileNotFoundError) as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return 2
    uri = options.uri or default_uri(Path.cwd())
    sys.stderr.write(f"MLflow UI on http://{options.host}:{options.port} (Ctrl-C ends it)\n")
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--backend-store-uri",
        uri,
        "--host",
        options.host,
        "--port",
        str(options.port),
        "--workers",
        "1",
    ]
    try:
        return subprocess.run(
            command, check=False, env={**os.environ, "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
        ).returncode
    except KeyboardInterrupt:
        return 0


def _check(uri: str | None) -> None:
    if find_spec("mlflow") is None:
        raise MissingExtraError("cimopt ui", "mlflow")
    if uri is None and not (Path.cwd() / "runs" / "mlflow.db").exists():
        raise FileNotFoundError("this folder has no runs/mlflow.db yet; run cimopt search here first, or give --uri")
