"""Networks from other tools' files: ONNX, Timeloop, ZigZag, SCALE-Sim, PyTorch.

`import_file("net.onnx", Options())` gives an `Imported`: the workload, what was ignored, notes and
doubts. Formats are modules with one function `read(path, options)`, loaded when used.

Files from elsewhere are data, never programs: no pickle, no Python, YAML with plain tags only, sizes
bounded, and external data of a model only from within its folder; saved PyTorch files are refused.
"""

from cimopt.workloads.importers.detect import detect, import_file
from cimopt.workloads.importers.options import FORMATS, PADDINGS, Imported, Options, parse_bindings

__all__ = ["FORMATS", "PADDINGS", "Imported", "Options", "detect", "import_file", "parse_bindings"]
