"""Small models and files built in the tests, and the optional folder of public sample files."""

import os
from pathlib import Path

import numpy as np
import pytest

from cimopt.workloads.importers import Options, import_file

ROOT = Path(__file__).resolve().parents[2]
# Beside the checkout, or where a person keeps them.
CASE_FOLDERS = [Path(os.environ.get("CIMOPT_CASE_FILES", "")), ROOT.parent / "shared" / "cases" / "files"]


@pytest.fixture(scope="session")
def case_files() -> Path:
    """Public files of other tools; they are not part of this repository."""
    found = next((p for p in CASE_FOLDERS if (p / "resnet18.onnx").is_file()), None)
    if found is None:
        pytest.skip("no public sample files beside this checkout")
    return found


class Model:
    """Builds an ONNX model node by node and saves it: `Model().input(...).weight(...).node(...)`."""

    def __init__(self, opset: int = 17, **domains: int) -> None:
        import onnx

        self.helper, self.onnx = onnx.helper, onnx
        self.opsets = [onnx.helper.make_opsetid("", opset)]
        self.opsets += [onnx.helper.make_opsetid(name.replace("_", "."), v) for name, v in domains.items()]
        self.nodes, self.inputs, self.outputs, self.weights, self.values = [], [], [], [], []

    def input(self, name, *shape, kind="FLOAT"):
        self.inputs.append(self.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), shape))
        return self

    def weight(self, name, *shape, kind="float32"):
        self.weights.append(self.onnx.numpy_helper.from_array(np.zeros(shape, kind), name))
        return self

    def numbers(self, name, *values):
        self.weights.append(self.onnx.numpy_helper.from_array(np.array(values, np.int64), name))
        return self

    def value(self, name, *shape):
        self.values.append(self.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape))
        return self

    def node(self, op, inputs, outputs, name="", domain="", **attributes):
        self.nodes.append(
            self.helper.make_node(op, inputs.split(), outputs.split(), name=name, domain=domain, **attributes)
        )
        return self

    def proto(self):
        end = self.nodes[-1].output[0]
        outputs = self.outputs or [self.helper.make_value_info(end, self.onnx.TypeProto())]
        graph = self.helper.make_graph(
            self.nodes, "test", self.inputs, outputs, initializer=self.weights, value_info=self.values
        )
        return self.helper.make_model(graph, opset_imports=self.opsets)


@pytest.fixture
def model():
    pytest.importorskip("onnx")
    return Model


@pytest.fixture
def read_model(tmp_path):
    """Save a `Model` and import it; options by keyword."""

    def read_model(built, name="net.onnx", **options):
        path = tmp_path / name
        path.write_bytes(built.proto().SerializeToString())
        return import_file(path, Options(**options))

    return read_model


@pytest.fixture
def read_text(tmp_path):
    """Save text under a file name and import it."""

    def read_text(name, text, **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return import_file(path, Options(**options))

    return read_text
