"""`cimopt profile MODEL.onnx --images DIR`: activations of a network on a person's images, as a profile."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cimopt.errors import CimoptError, InputError

EPILOG = """The file holds the quantised input of every convolution and linear layer, in order, with its origin.
Mind that the first layer's input is the image itself: --form histogram or totals keeps no activations.
Search with it:
  cimopt search space=zeroskip evaluator=zeroskip 'workload=[]' +workload.mine.file=mine.yaml \\
      +evaluator.zeroskip.profiles.mine=mine.npz        (the workload file is written by --workload mine.yaml)
"""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    p = argparse.ArgumentParser(
        prog="cimopt profile",
        description="Run an ONNX network on images and write its quantised activations as a profile (npz).",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("model", type=Path, metavar="MODEL.onnx", help="network with one image input")
    p.add_argument("--images", type=Path, required=True, metavar="DIR", help="folder of images (used in order of name)")
    p.add_argument("--out", type=Path, help="file to write (default: MODEL.npz in this folder)")
    p.add_argument(
        "--workload", type=Path, metavar="FILE.yaml", help="also write the network's layers as a workload file"
    )
    p.add_argument("--name", help="name in the profile (default: the model file's)")
    p.add_argument("--limit", type=int, metavar="N", help="use at most N images")
    p.add_argument("--bits", type=int, default=8, help="bits of an input (default 8)")
    p.add_argument(
        "--percentile", type=float, default=100.0,
        help="scale of a tensor: 100 = its largest value (default), 99.9 clips the top 0.1 %%",
    )  # fmt: skip
    p.add_argument("--size", type=int, nargs="+", help="height [width] of the input, where the model leaves it open")
    p.add_argument(
        "--scale", type=float, default=1 / 255, help="pixels 0..255 are multiplied by this first (default 1/255)"
    )
    p.add_argument("--mean", type=float, nargs="+", default=[0.485, 0.456, 0.406], help="then subtracted, per channel")
    p.add_argument("--std", type=float, nargs="+", default=[0.229, 0.224, 0.225], help="then divided by, per channel")
    p.add_argument("--bgr", action="store_true", help="channels in the order blue, green, red")
    p.add_argument(
        "--form", choices=("activations", "histogram", "totals"), default="activations",
        help="activations (default): exact for any array; histogram, totals: kilobytes, for one array height",
    )  # fmt: skip
    p.add_argument(
        "--rows", type=int, default=128, help="rows of an array, for --form histogram or totals (default 128)"
    )
    p.add_argument("--rows-per-read", type=int, default=8, help="rows per read, for the same (default 8)")
    p.add_argument("--licence", default="", help="licence of network and images, kept in the profile")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (0 done, 2 bad input)."""
    options = parser().parse_args(arguments)
    try:
        text = _profile(options)
    except CimoptError as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return error.exit_code
    sys.stdout.write(text)
    return 0


def _profile(options: argparse.Namespace) -> str:
    from cimopt_zeroskip.profiling import images, onnx_run

    model = onnx_run.read_model(options.model)
    first, channels, size = _layout(onnx_run.input_shape(model), options.size)
    files = images.image_files(options.images)[: options.limit]
    how = images.Preparation(options.scale, tuple(options.mean), tuple(options.std), options.bgr)
    batch = images.prepare([images.read_image(f, size) for f in files], how, first, channels)
    name = options.name or options.model.stem
    order = "BGR" if how.bgr else "RGB"
    notes = {
        "network": f"{options.model.name} sha256 {onnx_run.sha256(options.model)}",
        "images": [f"{f.name} sha256 {onnx_run.sha256(f)[:16]}" for f in files],
        "input": f"{size[0]}x{size[1]}, scale {how.scale:g}, mean {how.mean}, std {how.std}, {order}",
        "licence": options.licence or "not stated",
    }
    profile = onnx_run.profile_model(
        model, batch, name=name, bits=options.bits, percentile=options.percentile, provenance=notes
    )
    out = options.out or Path(f"{name}.npz")
    _save(profile, options, out)
    text = _summary(profile, out)
    if options.workload:
        from cimopt.workloads.writer import to_yaml

        options.workload.write_text(to_yaml(profile.workload, f"made by cimopt profile {options.model.name}"))
        text += f"wrote {options.workload}\n"
    return text


def _save(profile, options: argparse.Namespace, out: Path) -> None:
    from cimopt_zeroskip.mapping import ArraySpec
    from cimopt_zeroskip.profile import save
    from cimopt_zeroskip.summary import save_summary, summarise

    if options.form == "activations":
        save(profile, out)
        return
    spec = ArraySpec(xbar_rows=options.rows, rows_per_read=options.rows_per_read, input_bits=options.bits)
    save_summary(summarise(profile, spec, options.form), out)


def _layout(shape: list[int | None], size: list[int] | None) -> tuple[bool, int, tuple[int, int]]:
    """Whether channels come first, how many there are, and the input's height and width."""
    first = shape[1] in (1, 3) and shape[3] not in (1, 3)
    if not first and shape[3] not in (1, 3):
        raise InputError(f"the model's input {shape} has no dimension of 1 or 3 channels")
    channels, stated = (shape[1], shape[2:]) if first else (shape[3], shape[1:3])
    asked = None if size is None else (size[0], size[-1])
    if None not in stated:
        if asked is not None and tuple(stated) != asked:
            raise InputError(f"--size {asked[0]} {asked[1]}: the model's input is {stated[0]} x {stated[1]}")
        return first, channels, (stated[0], stated[1])
    return first, channels, asked or (224, 224)


def _summary(profile, out: Path) -> str:
    lines = [f"{'layer':<32}{'patches':>9}{'rows':>7}{'outputs':>9}{'ones %':>8}{'zero %':>8}"]
    for one in profile.layers:
        codes, layer = profile.tensors[one.tensor], one.layer
        ones = sum(int(((codes >> k) & 1).sum()) for k in range(profile.input_bits)) / (codes.size * profile.input_bits)
        rows = layer.kernel[0] * layer.kernel[1] * layer.in_channels // layer.groups
        patches = layer.out_map[0] * layer.out_map[1]
        zero = 100 * float((codes == 0).mean())
        lines.append(f"{layer.name[:31]:<32}{patches:>9}{rows:>7}{layer.out_channels:>9}{100 * ones:>8.2f}{zero:>8.2f}")
    size = out.stat().st_size / 1e6
    lines.append(f"wrote {out}: {len(profile.layers)} layers, {profile.n_images} images, {size:.1f} MB")
    return "\n".join(lines) + "\n"
