"""Blocks and arrays of grouped and repeated layers (single cases: test_zeroskip_cases.py); patches against windows."""

from __future__ import annotations

import numpy as np
import pytest
from cimopt_zeroskip import ArraySpec, im2col, map_layer
from cimopt_zeroskip.mapping import GROUP_POLICIES, map_layers, row_taps
from hypothesis import given, settings
from hypothesis import strategies as st

from cimopt.errors import InputError
from cimopt.types import Layer
from cimopt.workloads import load, names


def test_grouped_layer_keeps_its_groups_apart():
    """AlexNet's second layer in its two-group form: 1200 rows and 128 outputs per group, 10 blocks each."""
    layer = Layer("conv2", "conv", 96, 256, (5, 5), padding=(2,) * 4, groups=2, out_map=(27, 27))
    mapped = map_layer(layer, ArraySpec())
    assert (mapped.blocks, mapped.arrays_per_block, mapped.rows) == (20, 8, 2400)
    assert mapped.block_rows.tolist() == 2 * ([128] * 9 + [48])


@pytest.mark.parametrize("policy", GROUP_POLICIES)
@pytest.mark.parametrize("network", names("zoo"))
def test_rows_weights_and_macs_are_all_there(network, policy):
    for layer in load(network).layers:
        if layer.dynamic:
            continue
        mapped = map_layer(layer, ArraySpec(grouped_policy=policy))
        rows = layer.kernel[0] * layer.kernel[1] * layer.in_channels
        assert mapped.block_rows.sum() == mapped.rows == rows
        assert 0 < mapped.block_rows.min() <= mapped.block_rows.max() <= 128
        assert mapped.macs * layer.repeats == layer.macs
        assert 0 < mapped.cell_use <= 1


def test_repeats_have_arrays_of_their_own():
    layer = Layer("fc", "linear", 128, 16, repeats=3)
    mapped = map_layers((layer,), ArraySpec())
    assert [m.name for m in mapped] == ["fc", "fc#1", "fc#2"]
    assert sum(m.macs for m in mapped) == layer.macs


convs = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2),
    st.integers(1, 2), st.sampled_from([1, 2, 4]), st.integers(1, 2),
)  # fmt: skip


def _window(image, layer, patch, row_of_group, group):
    """One input value of a convolution, from its definition."""
    oy, ox = divmod(patch, layer.out_map[1])
    ky, kx, c = row_of_group
    y = oy * layer.stride[0] - layer.padding[0] + ky * layer.dilation[0]
    x = ox * layer.stride[1] - layer.padding[1] + kx * layer.dilation[1]
    inside = 0 <= y < image.shape[0] and 0 <= x < image.shape[1]
    return int(image[y, x, group * (layer.in_channels // layer.groups) + c]) if inside else 0


@settings(max_examples=60, deadline=None)
@given(convs)
def test_patches_are_convolution_windows(case):
    seed, kh, kw, stride, pad, dilation, groups, per_group = case
    rng = np.random.default_rng(seed)
    size = rng.integers(6, 9, 2)
    image = rng.integers(0, 256, (*size, groups * per_group)).astype(np.uint8)
    out = tuple(int((size[i] + 2 * pad - (k - 1) * dilation - 1) // stride + 1) for i, k in enumerate((kh, kw)))
    layer = Layer(
        "c", "conv", groups * per_group, groups, (kh, kw), (stride,) * 2, (pad,) * 4, (dilation,) * 2, groups, out
    )
    rows = [(ky, kx, c) for ky in range(kh) for kx in range(kw) for c in range(per_group)]
    expected = [
        [_window(image, layer, p, row, g) for g in range(groups) for row in rows] for p in range(out[0] * out[1])
    ]
    assert im2col(image, layer).tolist() == expected
    other = im2col(image, layer, order="ckk")
    order = (
        np.lexsort([row_taps(layer, "ckk")[i] for i in (2, 1, 0)]),
        np.lexsort([row_taps(layer, "kkc")[i] for i in (2, 1, 0)]),
    )
    assert np.array_equal(other[:, order[0]], im2col(image, layer)[:, order[1]])


def test_padding_holds_the_code_of_zero():
    layer = Layer("c", "conv", 1, 1, (3, 3), padding=(1, 1, 1, 1), out_map=(1, 1))
    patches = im2col(np.array([[[9]]], np.uint8), layer, zero_point=5)
    assert patches.tolist() == [[5, 5, 5, 5, 9, 5, 5, 5, 5]]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"xbar_rows": 0}, "xbar_rows=0"), ({"grouped_policy": "diagonal"}, "block_diagonal"), ({"row_order": "cck"}, "ckk"),
        ({"xbar_cols": 4}, "8 cells"), ({"floor": 2}, "floor=2"),
    ],
)  # fmt: skip
def test_wrong_arrays_are_refused(setting, named):
    with pytest.raises(InputError, match=named):
        ArraySpec(**setting)


def test_an_image_too_small_for_the_layer_is_refused():
    layer = Layer("c", "conv", 1, 1, (3, 3), out_map=(4, 4))
    with pytest.raises(InputError, match=r"height 5 is below the 6"):
        im2col(np.zeros((5, 6, 1), np.uint8), layer)
    with pytest.raises(InputError, match="2 channels"):
        im2col(np.zeros((6, 6, 2), np.uint8), layer)
