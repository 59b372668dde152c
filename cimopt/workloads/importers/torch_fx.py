"""PyTorch modules in memory, by `torch.export` and ONNX: `from_module(module, (example,))`.

The module is exported to ONNX in a temporary folder and read by the ONNX importer, so that both
ways give the same layers. Saved modules and programs (*.pt, *.pth, *.pt2) are refused: PyTorch
unpickles them, and a pickle runs the code it holds.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from cimopt.errors import InputError, MissingExtraError
from cimopt.workloads.importers.options import Imported, Options

NEEDS = ("torch", "onnx", "onnxscript")


def read(path: Path, options: Options) -> NoReturn:
    """Refuse the file, and say what to do instead."""
    raise InputError(
        f"'{path}': saved PyTorch files are not opened, for loading one can run code that it holds. In Python, call "
        "cimopt.workloads.importers.torch_fx.from_module(module, (example,)), or save the module by "
        "torch.onnx.export(module, (example,), 'net.onnx', dynamo=True) and import that"
    )


def from_module(module: Any, example_inputs: tuple, options: Options | None = None) -> Imported:
    """The layers of a `torch.nn.Module` run on `example_inputs`, whose shapes become the network's."""
    if any(find_spec(name) is None for name in NEEDS):
        raise MissingExtraError("importing PyTorch modules", "torch")
    from cimopt.workloads.importers import onnx

    options = options or Options()
    name = options.name or type(module).__name__
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.onnx"
        _export(module, example_inputs, file)
        imported = onnx.read(file, replace(options, name=name))
    workload = replace(imported.workload, source=f"PyTorch module {type(module).__name__}")
    return replace(imported, workload=workload, format="torch_fx")


def _export(module: Any, example_inputs: tuple, file: Path) -> None:
    import torch

    try:
        torch.onnx.export(module, example_inputs, str(file), dynamo=True, verbose=False)
    except Exception as error:  # PyTorch raises whatever went wrong in it, and wraps that in advice
        cause = error.__cause__ or error
        reason = f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
        raise InputError(f"{type(module).__name__} cannot be exported to ONNX by PyTorch: {reason}") from None
