"""PyTorch modules in memory give the layers that their architecture has; needs the extra `torch`."""

import pytest

from cimopt import workloads
from cimopt.errors import InputError

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("onnxscript", reason="the extra `torch` is not installed")

from cimopt.workloads.importers import torch_fx  # noqa: E402

nn = torch.nn


class Basic(nn.Module):
    """A residual block as in torchvision's ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.down = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride != 1 or inputs != outputs else None

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.down is None else self.down(x)))


def resnet18():
    blocks, inputs = [], 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for block in range(2):
            blocks.append(Basic(inputs, outputs, 2 if stage and not block else 1))
            inputs = outputs
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000),
    ).eval()  # fmt: skip


def test_a_module_is_the_zoos_network():
    found = torch_fx.from_module(resnet18(), (torch.zeros(1, 3, 224, 224),)).workload
    zoo = workloads.load("resnet18")
    assert (found.macs, found.weights, found.n_layers) == (zoo.macs, zoo.weights, zoo.n_layers)

    def shape(layer):
        return (layer.in_channels, layer.out_channels, layer.kernel, layer.stride, layer.padding, layer.out_map)

    assert sorted(map(shape, found.layers)) == sorted(map(shape, zoo.layers))


def test_attention_has_dynamic_products():
    """4 heads, 16 tokens, 32 channels: two products of 16 x 16 x 32, four projections of 32 x 32."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    found = torch_fx.from_module(layer, (torch.zeros(1, 16, 32),)).workload
    assert sum(x.macs for x in found.layers if x.dynamic) == 2 * 16 * 16 * 32
    assert found.weights == 4 * 32 * 32 + 2 * 32 * 64


def test_what_cannot_be_exported_is_a_sentence():
    class Odd(nn.Module):
        def forward(self, x):
            return x if x.sum().item() > 0 else -x

    with pytest.raises(InputError, match="Odd cannot be exported"):
        torch_fx.from_module(Odd(), (torch.zeros(3),))
