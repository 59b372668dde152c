"""The convolutional networks of the zoo as compact tables, one function per network.

Numbers from the papers named in each function, in the torchvision variant where papers leave a
choice; layer names are torchvision's module paths, so each line can be traced.
Input: one 3 x 224 x 224 image (ImageNet), 1,000 classes, unless the function says otherwise.
"""

from __future__ import annotations

from cimopt.types import Workload
from cimopt.workloads.builder import FeatureMap, Network, adaptive_pool, flatten, pool
from cimopt.workloads.mobilenet_v2 import divisible

IMAGE = (3, 224, 224)
CLASSES = 1000


def alexnet() -> Workload:
    """Single-column AlexNet, Krizhevsky 2014, arXiv 1404.5997 (no groups, unlike the two-GPU original)."""
    net = Network("alexnet", variant="torchvision", source="arXiv 1404.5997, torchvision variant", input_shape=IMAGE)
    x = net.conv(net.input, "features.0", 64, 11, stride=4, padding=2)
    x = net.conv(pool(x, 3, 2), "features.3", 192, 5, padding=2)
    x = net.conv(pool(x, 3, 2), "features.6", 384, 3, padding=1)
    x = net.conv(x, "features.8", 256, 3, padding=1)
    x = net.conv(x, "features.10", 256, 3, padding=1)
    x = flatten(adaptive_pool(pool(x, 3, 2), 6))
    for name, width in (("classifier.1", 4096), ("classifier.4", 4096), ("classifier.6", CLASSES)):
        x = net.linear(x, name, width)
    return net.workload()


# Channels of the 3x3 convolutions of each stage, configuration D; each stage ends in a 2x2 pooling.
_VGG16_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16() -> Workload:
    """VGG-16 without batch normalisation, Simonyan and Zisserman 2014, arXiv 1409.1556, table 1 column D."""
    net = Network(
        "vgg16", variant="torchvision, no batch norm", source="arXiv 1409.1556, table 1 column D", input_shape=IMAGE
    )
    x, module = net.input, 0
    for stage in _VGG16_STAGES:
        for channels in stage:
            x = net.conv(x, f"features.{module}", channels, 3, padding=1)
            module += 2  # the convolution and its activation
        x = pool(x, 2, 2)
        module += 1
    x = flatten(adaptive_pool(x, 7))
    for name, width in (("classifier.0", 4096), ("classifier.3", 4096), ("classifier.6", CLASSES)):
        x = net.linear(x, name, width)
    return net.workload()


_VGG11_STAGES = ((64, 64, 128, 128), (256, 256), (512, 512), (512, 512))


def vgg11() -> Workload:
    """The CIFAR network that Crafton et al. 2020 (Breaking Barriers, arXiv 2008.06741) call VGG11.

    Ten 3x3 convolutions on 32 x 32 pixels, with a 2x2 pooling between stages and no fully connected
    layer: neither column A of the VGG paper nor its CIFAR adaptation with eight.
    """
    net = Network(
        "vgg11",
        variant="CIFAR-10, ten convolutions",
        source="Crafton et al. 2020, arXiv 2008.06741",
        input_shape=(3, 32, 32),
    )
    x, number = net.input, 0
    for stage in _VGG11_STAGES:
        for channels in stage:
            x = net.conv(x, f"conv{number}", channels, 3, padding=1)
            number += 1
        x = pool(x, 2, 2)
    return net.workload()


def resnet18() -> Workload:
    """ResNet-18, He et al. 2015, arXiv 1512.03385, table 1; projection shortcuts (option B)."""
    net = Network("resnet18", variant="torchvision", source="arXiv 1512.03385, table 1", input_shape=IMAGE)
    x = pool(net.conv(net.input, "conv1", 64, 7, stride=2, padding=3), 3, 2, padding=1)
    for stage, channels in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            stride = 2 if stage > 1 and block == 0 else 1
            x = _basic_block(net, x, f"layer{stage}.{block}", channels, stride)
    net.linear(flatten(adaptive_pool(x, 1)), "fc", CLASSES)
    return net.workload()


def _basic_block(net: Network, x: FeatureMap, name: str, channels: int, stride: int) -> FeatureMap:
    y = net.conv(x, f"{name}.conv1", channels, 3, stride=stride, padding=1)
    y = net.conv(y, f"{name}.conv2", channels, 3, padding=1)
    if stride != 1 or x.channels != channels:
        net.conv(x, f"{name}.downsample.0", channels, 1, stride=stride)
    return y


# Inner width and blocks of each stage; the output is four times the inner width.
_RESNET50 = ((64, 3), (128, 4), (256, 6), (512, 3))


def resnet50() -> Workload:
    """ResNet-50, He et al. 2015, arXiv 1512.03385, table 1; stride in the 3x3 convolution, as in torchvision."""
    net = Network("resnet50", variant="torchvision (v1.5)", source="arXiv 1512.03385, table 1", input_shape=IMAGE)
    x = pool(net.conv(net.input, "conv1", 64, 7, stride=2, padding=3), 3, 2, padding=1)
    for stage, (inner, blocks) in enumerate(_RESNET50, start=1):
        for block in range(blocks):
            stride = 2 if stage > 1 and block == 0 else 1
            x = _bottleneck(net, x, f"layer{stage}.{block}", inner, stride)
    net.linear(flatten(adaptive_pool(x, 1)), "fc", CLASSES)
    return net.workload()


def _bottleneck(net: Network, x: FeatureMap, name: str, inner: int, stride: int) -> FeatureMap:
    y = net.conv(x, f"{name}.conv1", inner, 1)
    y = net.conv(y, f"{name}.conv2", inner, 3, stride=stride, padding=1)
    y = net.conv(y, f"{name}.conv3", 4 * inner, 1)
    if stride != 1 or x.channels != 4 * inner:
        net.conv(x, f"{name}.downsample.0", 4 * inner, 1, stride=stride)
    return y


_DENSENET201_BLOCKS = (6, 12, 48, 32)
_GROWTH = 32  # channels each dense layer adds
_BOTTLENECK = 4 * _GROWTH  # channels between its 1x1 and its 3x3 convolution


def densenet201() -> Workload:
    """DenseNet-201, Huang et al. 2016, arXiv 1608.06993, table 1 (growth 32, compression 0.5)."""
    net = Network("densenet201", variant="torchvision", source="arXiv 1608.06993, table 1", input_shape=IMAGE)
    x = pool(net.conv(net.input, "features.conv0", 64, 7, stride=2, padding=3), 3, 2, padding=1)
    for block, layers in enumerate(_DENSENET201_BLOCKS, start=1):
        for layer in range(1, layers + 1):
            x = _dense_layer(net, x, f"features.denseblock{block}.denselayer{layer}")
        if block < len(_DENSENET201_BLOCKS):
            x = pool(net.conv(x, f"features.transition{block}.conv", x.channels // 2, 1), 2, 2)
    net.linear(flatten(adaptive_pool(x, 1)), "classifier", CLASSES)
    return net.workload()


def _dense_layer(net: Network, x: FeatureMap, name: str) -> FeatureMap:
    y = net.conv(x, f"{name}.conv1", _BOTTLENECK, 1)
    net.conv(y, f"{name}.conv2", _GROWTH, 3, padding=1)
    return FeatureMap(x.channels + _GROWTH, x.height, x.width)


# Kernel, expanded channels, output channels, squeeze-and-excitation, stride: arXiv 1905.02244, table 1.
_MOBILENET_V3_LARGE = (
    (3, 16, 16, False, 1),
    (3, 64, 24, False, 2),
    (3, 72, 24, False, 1),
    (5, 72, 40, True, 2),
    (5, 120, 40, True, 1),
    (5, 120, 40, True, 1),
    (3, 240, 80, False, 2),
    (3, 200, 80, False, 1),
    (3, 184, 80, False, 1),
    (3, 184, 80, False, 1),
    (3, 480, 112, True, 1),
    (3, 672, 112, True, 1),
    (5, 672, 160, True, 2),
    (5, 960, 160, True, 1),
    (5, 960, 160, True, 1),
)


def mobilenet_v3() -> Workload:
    """MobileNetV3-Large, Howard et al. 2019, arXiv 1905.02244, table 1; classifier as in torchvision."""
    net = Network("mobilenet_v3", variant="large, torchvision", source="arXiv 1905.02244, table 1", input_shape=IMAGE)
    x = net.conv(net.input, "features.0.0", 16, 3, stride=2, padding=1)
    for i, row in enumerate(_MOBILENET_V3_LARGE, start=1):
        x = _inverted_residual(net, x, f"features.{i}.block", row)
    x = net.conv(x, f"features.{len(_MOBILENET_V3_LARGE) + 1}.0", 960, 1)
    x = net.linear(flatten(adaptive_pool(x, 1)), "classifier.0", 1280)
    net.linear(x, "classifier.3", CLASSES)
    return net.workload()


def _inverted_residual(net: Network, x: FeatureMap, name: str, row: tuple[int, int, int, bool, int]) -> FeatureMap:
    """Expand (left out where it would not widen), depthwise, squeeze and excite, project."""
    kernel, expanded, channels, excite, stride = row
    part = 0
    if expanded != x.channels:
        x = net.conv(x, f"{name}.{part}.0", expanded, 1)
        part += 1
    x = net.conv(x, f"{name}.{part}.0", expanded, kernel, stride=stride, padding=kernel // 2, groups=expanded)
    part += 1
    if excite:
        squeezed = net.conv(adaptive_pool(x, 1), f"{name}.{part}.fc1", divisible(expanded // 4), 1)
        net.conv(squeezed, f"{name}.{part}.fc2", expanded, 1)
        part += 1
    return net.conv(x, f"{name}.{part}.0", channels, 1)
