"""`result.json`: the one machine-readable summary of a run, with units and without sentinels."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

RESULT = "result.json"
ERROR = "error.json"  # instead of it, from a job that ended on bad input
LIBRARIES = ("cimopt", "numpy", "optuna", "hydra-core", "ray", "mlflow")


def plain(value: Any) -> Any:
    """Plain Python values; a non-finite number becomes null, so that no sentinel leaves the program."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def versions(evaluators: Mapping[str, str]) -> dict[str, str]:
    """Versions of cimopt, the libraries that decide a result, and the evaluators used."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {f"evaluator.{name}": v for name, v in evaluators.items()}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Written beside and moved into place, so that a kill never leaves half a file."""
    text = json.dumps(plain(content), indent=2, allow_nan=False)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w") as file:
        file.write(text + "\n")
    os.replace(temporary, path)
