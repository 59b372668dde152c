"""Functional check: what the converters see adds up to the integer convolution, bit for bit, on real layers."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from cimopt_zeroskip import ArraySpec, im2col, map_layer, op_cycles, popcounts
from cimopt_zeroskip.profile import load_shipped
from cimopt_zeroskip.reads import layer_output, read_block

from cimopt.errors import InputError

# Three kernels of SqueezeNet v1.1 as signed 8-bit numbers (ndf 0.1.4, MIT), (kh, kw, c, out).
KERNELS = Path(__file__).parent / "golden" / "squeezenet_kernels.npz"
SPECS = {
    "paper": ArraySpec(),
    "3-bit cells, 64 rows, 4 per read": ArraySpec(xbar_rows=64, bits_per_cell=3, rows_per_read=4),
    "no skipping": ArraySpec(skip=False),
    "empty planes are free": ArraySpec(floor=0, rows_per_read=16),
}


@pytest.fixture(scope="module")
def squeezenet():
    """Its shipped profile."""
    return load_shipped("squeezenet")


def _real(profile, name: str, n: int):
    """Patches, weights and plain convolution outputs of a real layer at n places over the whole map."""
    one = next(p for p in profile.layers if p.layer.name == name)
    image = profile.tensors[one.tensor][0]
    patches = im2col(image, one.layer, zero_point=one.zero_point)
    weights = np.load(KERNELS)[name.replace("/", "_")]
    places = np.linspace(0, len(patches) - 1, n).astype(int)
    return one, image, patches[places], weights, places


def _convolution(image, weights, one, places) -> np.ndarray:
    """Integer convolution from its definition, without im2col."""
    layer = one.layer
    top, left, bottom, right = layer.padding
    full = np.pad(image.astype(np.int64), ((top, bottom), (left, right), (0, 0)), constant_values=one.zero_point)
    out = []
    for place in places:
        oy, ox = divmod(int(place), layer.out_map[1])
        y, x = oy * layer.stride[0], ox * layer.stride[1]
        window = full[y : y + layer.kernel[0], x : x + layer.kernel[1]]
        out.append(np.einsum("yxc,yxco->o", window, weights.astype(np.int64)))
    return np.array(out)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@pytest.mark.parametrize("name", ["conv1", "fire2/squeeze1x1", "fire2/expand3x3"])
def test_reads_add_up_to_the_convolution(squeezenet, name, spec):
    one, image, patches, weights, places = _real(squeezenet, name, 12)
    mapped = map_layer(one.layer, spec)
    flat = weights.reshape(-1, weights.shape[3])
    got = layer_output(patches, flat, spec, mapped.bounds)
    assert got.tolist() == _convolution(image, weights, one, places).tolist()


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_reads_take_the_cycles_of_the_model_and_fit_the_converter(squeezenet, spec):
    one, _, patches, weights, _ = _real(squeezenet, "fire2/expand3x3", 10)
    flat, bounds = weights.reshape(-1, 64), map_layer(one.layer, spec).bounds
    ones = popcounts(patches, rows_per_block=spec.xbar_rows, input_bits=8)
    how = {"weight_bits": spec.cols_per_adc, "rows_per_block": spec.xbar_rows, "floor": spec.floor}
    cycles = op_cycles(ones, rows_per_read=spec.rows_per_read, skip=spec.skip, **how)
    for p, patch in enumerate(patches):
        for b, (low, high) in enumerate(itertools.pairwise(bounds)):
            block = read_block(patch[low:high], flat[low:high], spec)
            assert block.cycles == cycles[p, b]
            assert block.largest <= spec.rows_per_read * (2**spec.bits_per_cell - 1)


def test_weights_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"-128\.\.127"):
        read_block(np.array([1]), np.array([[128]]), ArraySpec())
    with pytest.raises(InputError, match="up to 2 rows"):
        read_block(np.array([1, 1, 1]), np.ones((3, 1), int), ArraySpec(xbar_rows=2))
