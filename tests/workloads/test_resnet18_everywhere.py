"""ResNet-18 written here as Timeloop, ZigZag, SCALE-Sim and ONNX: the same layers as the zoo's."""

from collections import Counter

import pytest

from cimopt import workloads
from cimopt.workloads.importers import Options, import_file


def multiset(workload):
    return Counter(
        (x.kind, x.in_channels, x.out_channels, x.kernel, x.stride, x.dilation, x.groups, x.out_map, x.batch)
        for x in workload.layers
    )


@pytest.fixture
def ours():
    return workloads.load("resnet18")


def test_timeloop(ours, tmp_path):
    for i, x in enumerate(ours.layers):
        (tmp_path / f"{i:02}.yaml").write_text(
            f"problem:\n  instance: {{C: {x.in_channels}, M: {x.out_channels}, P: {x.out_map[0]}, Q: {x.out_map[1]}, "
            f"R: {x.kernel[0]}, S: {x.kernel[1]}, Hstride: {x.stride[0]}, Wstride: {x.stride[1]}}}\n"
        )
    imported = import_file(tmp_path)
    assert multiset(imported.workload) == multiset(ours)
    assert not imported.warnings


def test_zigzag(ours, tmp_path):
    entry = (
        "- id: {i}\n  operator_type: Conv\n  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]\n"
        "  dimension_relations: [ix={s}*ox+1*fx, iy={s}*oy+1*fy]\n  loop_dims: [B, K, C, OY, OX, FY, FX]\n"
        "  loop_sizes: [1, {k}, {c}, {o}, {o}, {f}, {f}]\n"
    )
    (tmp_path / "resnet18.yaml").write_text(
        "".join(
            entry.format(i=i, s=x.stride[0], k=x.out_channels, c=x.in_channels, o=x.out_map[0], f=x.kernel[0])
            for i, x in enumerate(ours.layers)
        )
    )
    imported = import_file(tmp_path / "resnet18.yaml")
    assert multiset(imported.workload) == multiset(ours)
    assert not imported.warnings


def test_scalesim(ours, tmp_path):
    header = "Layer name,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides\n"
    rows = [
        f"{x.name},{x.out_map[0] * x.stride[0]},{x.out_map[1] * x.stride[1]},{x.kernel[0]},{x.kernel[1]},"
        f"{x.in_channels},{x.out_channels},{x.stride[0]}"
        for x in ours.layers
    ]
    (tmp_path / "resnet18.csv").write_text(header + "\n".join(rows))
    imported = import_file(tmp_path / "resnet18.csv", Options(padding="same"))
    assert multiset(imported.workload) == multiset(ours)
    assert not imported.warnings


def test_onnx(ours, model, read_model):
    """The network's own graph, with its branches; layers are named as torchvision names modules."""
    built = model().input("x", "batch", 3, 224, 224)

    def conv(data, name, inputs, outputs, kernel, stride=1):
        built.weight(f"{name}.weight", outputs, inputs, kernel, kernel)
        pads = [kernel // 2] * 4
        built.node("Conv", f"{data} {name}.weight", f"{name}.y", name, strides=[stride] * 2, pads=pads)
        return f"{name}.y"

    conv("x", "conv1", 3, 64, 7, 2)
    built.node("Relu", "conv1.y", "r").node("MaxPool", "r", "p", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    data, inputs = "p", 64
    for stage, outputs in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            inner = conv(conv(data, f"{name}.conv1", inputs, outputs, 3, stride), f"{name}.conv2", outputs, outputs, 3)
            short = conv(data, f"{name}.downsample.0", inputs, outputs, 1, stride) if inputs != outputs else data
            built.node("Add", f"{inner} {short}", f"{name}.s")
            data, inputs = f"{name}.s", outputs
    built.node("GlobalAveragePool", data, "g").node("Flatten", "g", "f").weight("fc.weight", 1000, 512)
    built.node("Gemm", "f fc.weight", "y", "fc", transB=1)
    imported = read_model(built, "resnet18.onnx")
    assert multiset(imported.workload) == multiset(ours)
    by_name = {x.name: x for x in imported.workload.layers}
    assert {x.name: x.padding for x in ours.layers} == {name: x.padding for name, x in by_name.items()}
    four = read_model(built, "resnet18.onnx", bind={"batch": 4}).workload
    assert {x.batch for x in four.layers} == {4}
    assert four.macs == 4 * ours.macs
