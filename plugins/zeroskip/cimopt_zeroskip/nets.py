"""Workloads that come with this plug-in: the profiled networks, and the paper's VGG11."""

from __future__ import annotations

from dataclasses import replace

from cimopt.types import Workload


def _profiled(name: str) -> Workload:
    from cimopt_zeroskip.profile import load_shipped

    return load_shipped(name).workload


def resnet50_thin() -> Workload:
    """ResNet-50-thin, 53 convolutions at 224 x 224 (profile shipped)."""
    return _profiled("resnet50_thin")


def vgg16_trunk() -> Workload:
    """The 13 convolutions of VGG16 at 112 x 112 (profile shipped)."""
    return _profiled("vgg16_trunk")


def squeezenet() -> Workload:
    """SqueezeNet v1.1, 26 convolutions at 227 x 227 (profile shipped)."""
    return _profiled("squeezenet")


def vgg11_cifar10() -> Workload:
    """The paper's VGG11: ten convolutions on 32 x 32 pixels (totals shipped, no profile)."""
    from cimopt_zeroskip.published import published_workload

    return replace(published_workload("vgg11"), name="vgg11_cifar10")
