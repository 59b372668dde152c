"""Profiles: files, counts, the shipped ones and the shared samples; synthetic ones; fidelities."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cimopt_zeroskip import ArraySpec, im2col, map_layer, popcounts
from cimopt_zeroskip.chip import plan, plan_and_run
from cimopt_zeroskip.mapping import map_layers
from cimopt_zeroskip.nets import vgg11_cifar10
from cimopt_zeroskip.profile import Profile, ProfiledLayer, load, load_shipped, save, shipped, write_npz
from cimopt_zeroskip.summary import SummaryProfile, save_summary, summarise
from cimopt_zeroskip.synthetic import beta_binomial, synthetic_profile
from cimopt_zeroskip.work import at_fidelity, trace_work, uniform_work

from cimopt.errors import InputError
from cimopt.types import Layer
from cimopt.workloads import load as load_workload

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "profiles"


@pytest.fixture
def small() -> Profile:
    """Two layers on two random images; they share no tensor."""
    rng = np.random.default_rng(1)
    maps = {
        "a": rng.integers(0, 256, (2, 6, 6, 24)).astype(np.uint8),
        "b": rng.integers(0, 9, (2, 6, 6, 64)).astype(np.uint8),
    }
    first = Layer("first", "conv", 24, 64, (3, 3), (1, 1), (1,) * 4, out_map=(6, 6))
    second = Layer("second", "conv", 64, 16, (1, 1), (2, 2), out_map=(3, 3))
    layers = (ProfiledLayer(first, "a", zero_point=7, step=0.5), ProfiledLayer(second, "b"))
    return Profile("small", layers, maps, 8, {"network": "made up", "licence": "none"})


def test_a_saved_profile_comes_back(small, tmp_path):
    for packed in (False, True):
        save(small, tmp_path / "p.npz", small=packed)
        back = load(tmp_path / "p.npz")
        assert (back.name, back.layers, back.input_bits) == (small.name, small.layers, 8)
        assert dict(back.provenance) == dict(small.provenance)
        assert all(np.array_equal(back.tensors[k], v) for k, v in small.tensors.items())
        assert back.fingerprint == small.fingerprint


def test_the_same_profile_is_the_same_file(small, tmp_path):
    for name in ("a.npz", "b.npz"):
        save(small, tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_counts_are_those_of_the_patches(small):
    for index, one in enumerate(small.layers):
        for order in ("kkc", "ckk"):
            mapped = map_layer(one.layer, ArraySpec(row_order=order))
            for image in range(2):
                patches = im2col(small.tensors[one.tensor][image], one.layer, order=order, zero_point=one.zero_point)
                expected = popcounts(patches, rows_per_block=128, input_bits=8)
                assert np.array_equal(small.counts(index, mapped, image), expected)
                assert np.array_equal(small._count(one, mapped, image, compiled=False), expected)
    assert small.counts(0, mapped, 0) is not small.counts(1, mapped, 0)


def test_other_files_are_refused(tmp_path, small):
    with pytest.raises(InputError, match="there is no profile"):
        load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no profile")
    np.savez(tmp_path / "other.npz", meta=np.array(json.dumps({"format": "else"})))
    np.savez(tmp_path / "bare.npz", x=np.zeros(3))
    for name in ("text.npz", "other.npz", "bare.npz"):
        with pytest.raises(InputError, match="is no activation profile"):
            load(tmp_path / name)
    with pytest.raises(InputError, match="did you mean 'squeezenet'"):
        load_shipped("squezenet")


def test_layers_are_found_by_name_then_by_shape(small):
    second = small.layers[1].layer
    renamed = Layer("other", "conv", 64, 16, (1, 1), (2, 2), out_map=(3, 3))
    assert small.find(second, set()) == small.find(renamed, set()) == 1
    with pytest.raises(InputError, match=r"no layer of the shape of 'fc'.*\(1, 1\)"):
        small.find(Layer("fc", "linear", 64, 10), set())


@pytest.mark.parametrize(
    ("name", "layers", "arrays"), [("resnet50_thin", 53, 2940), ("vgg16_trunk", 13, 7192), ("squeezenet", 26, 707)]
)
def test_shipped_profiles(name, layers, arrays):
    profile = load_shipped(name)
    assert name in shipped()
    assert len(profile.layers) == layers
    assert sum(m.arrays for m in map_layers(profile.workload.layers, ArraySpec())) == arrays
    notes = profile.provenance
    assert "PyPI" in notes["network"]
    assert "MIT" in notes["licence"]
    assert all("CC0" in image for image in notes["images"])
    inner = [profile.tensors[p.tensor] for p in profile.layers[1:]]
    ones = np.mean([np.unpackbits(t).mean() for t in inner])
    assert 0.08 < ones < 0.30
    assert all(p.zero_point == 0 for p in profile.layers[1:])


def test_shipped_resnet_agrees_with_the_shared_sample_of_eight_photos():
    """Ones per layer of one photo against 64 patches of eight: the scatter between images is tens of percent."""
    if not SHARED.is_dir():
        pytest.skip("the shared profiles are not beside this checkout")
    with np.load(SHARED / "nsfw_wheel8_p64.npz") as file:
        theirs = [json.loads(str(file["meta"]))["layers"][k]["ones"] for k in file.files if k != "meta"]
        sample = file["conv02"]
    profile = load_shipped("resnet50_thin")
    ours = [np.unpackbits(profile.tensors[p.tensor]).mean() for p in profile.layers]
    assert np.corrcoef(ours[1:], theirs[1:53])[0, 1] > 0.9
    # The sample is (patches, channel, ky, kx): our order is (ky, kx, channel).
    rows = sample.transpose(0, 2, 3, 1).reshape(len(sample), -1)
    ones = popcounts(rows, rows_per_block=128, input_bits=8)
    planes = np.stack([(rows >> k) & 1 for k in range(8)], axis=2)
    assert ones.sum(axis=1).tolist() == planes.sum(axis=1).tolist()


# ------------------------------------------------------------------ synthetic
def test_synthetic_ones_vary_as_real_ones_do():
    ones = beta_binomial(np.random.default_rng(3), 4000, [128, 128, 128], (0.25,) * 8).astype(float)
    assert ones.mean() / 128 == pytest.approx(0.25, rel=0.02)
    ratio = ones.var(axis=0) / (128 * 0.25 * 0.75)
    assert 2.4 < ratio.min() <= ratio.max() < 4.3
    totals = ones.sum(axis=2)
    between_blocks = np.corrcoef(totals.T)[np.triu_indices(3, 1)]
    assert 0.26 < between_blocks.min() <= between_blocks.max() < 0.73
    assert 0.3 < np.corrcoef(totals[1:, 0], totals[:-1, 0])[0, 1] < 0.8


def test_synthetic_profiles_are_labelled_and_repeat():
    workload = vgg11_cifar10()
    profile = synthetic_profile(workload)
    assert profile.synthetic
    assert not load_shipped("squeezenet").synthetic
    mapped = map_layer(profile.layers[3], ArraySpec())
    first = profile.counts(3, mapped, 0).copy()
    profile.forget()
    assert np.array_equal(first, profile.counts(3, mapped, 0))
    assert not np.array_equal(first, synthetic_profile(workload, seed=1).counts(3, mapped, 0))
    assert not np.array_equal(first, profile.counts(3, mapped, 1))


def test_synthetic_densities_are_the_stated_ones():
    resnet = synthetic_profile(load_workload("resnet18"))
    assert np.mean(resnet.densities[0]) == pytest.approx(0.529174, abs=1e-6)
    assert np.mean(resnet.densities[1]) == pytest.approx(0.12196, abs=1e-4)
    assert resnet.densities[1][7] == 0  # the authors' codes have seven useful bits
    assert synthetic_profile(load_workload("vgg16")).densities[1][0] == 0.271
    other = synthetic_profile(load_workload("densenet201")).densities
    assert np.mean(other[1]) == pytest.approx(0.28)
    assert np.mean(other[-1]) == pytest.approx(0.10)


def test_synthetic_resnet18_has_the_right_shape():
    """Not the paper's values (8.83, 7.46, 1.29), which need its activations, but near them."""
    layers = load_workload("resnet18").layers[:-1]
    profile = synthetic_profile(load_workload("resnet18"))
    mapped = map_layers(layers, ArraySpec())
    works = [trace_work(profile, i, m, [0]) for i, m in enumerate(mapped)]
    block = plan_and_run(works, 24576, "profile", "block").cycles
    weight = plan_and_run(works, 24576, "weight", "layer").cycles
    layer = plan_and_run(works, 24576, "profile", "layer").cycles
    dense = plan_and_run([uniform_work(m) for m in mapped], 24576, "profile", "layer").cycles
    assert [dense / block, weight / block, layer / block] == pytest.approx([8.83, 7.46, 1.29], rel=0.15)


# ----------------------------------------------------------------- fidelities
@pytest.fixture(scope="module")
def works():
    """SqueezeNet's real work."""
    profile = load_shipped("squeezenet")
    mapped = map_layers(profile.workload.layers, ArraySpec())
    return [trace_work(profile, i, m, [0]) for i, m in enumerate(mapped)]


@pytest.mark.parametrize(("fidelity", "error"), [("histogram", 0.06), ("totals", 0.06)])
def test_coarser_fidelities_stay_close(works, fidelity, error):
    coarse = [at_fidelity(w, fidelity) for w in works]
    for exact, one in zip(works, coarse, strict=True):
        assert one.block_total.tolist() == exact.block_total.tolist()
        assert one.sync_total == exact.sync_total
    for n in (1060, 2121):
        for policy, dataflow in (("weight", "layer"), ("profile", "layer"), ("profile", "block")):
            mine = plan_and_run(coarse, n, policy, dataflow).cycles
            assert mine == pytest.approx(plan_and_run(works, n, policy, dataflow).cycles, rel=error)
        # Block-wise allocation reads totals only, so all fidelities plan alike.
        plans = [plan(w, n, "profile", "block") for w in (works, coarse)]
        assert all(np.array_equal(a, b) for a, b in zip(*plans, strict=True))


def test_several_images_give_means(small):
    mapped = map_layer(small.layers[0].layer, ArraySpec())
    both = trace_work(small, 0, mapped, [0, 1])
    single = [trace_work(small, 0, mapped, [i]) for i in (0, 1)]
    for copies in (1, 3):
        assert both.layer_cycles(copies) == np.mean([w.layer_cycles(copies) for w in single])
        given = np.full(mapped.blocks, copies)
        assert both.block_cycles(given).tolist() == np.mean([w.block_cycles(given) for w in single], axis=0).tolist()
    assert both.ones.tolist() == np.mean([w.ones for w in single], axis=0).tolist()


# ------------------------------------------------------------------ summaries
@pytest.mark.parametrize("form", ["histogram", "totals"])
def test_a_compact_profile_gives_what_the_full_one_gives(tmp_path, form):
    full = load_shipped("squeezenet")
    save_summary(summarise(full, ArraySpec(), form), tmp_path / "small.npz")
    back = load(tmp_path / "small.npz")
    assert isinstance(back, SummaryProfile)
    assert (tmp_path / "small.npz").stat().st_size < 120_000
    assert back.workload.layers == full.workload.layers
    for columns, width in ((8, 128), (4, 256)):  # other columns and sharing than it was made for
        spec = ArraySpec(cols_per_adc=columns, xbar_cols=width)
        mapped = map_layers(full.workload.layers, spec)
        theirs = [at_fidelity(trace_work(full, i, m, [0]), form) for i, m in enumerate(mapped)]
        mine = [back.work(i, m, form) for i, m in enumerate(mapped)]
        for policy, dataflow in (("profile", "layer"), ("profile", "block")):
            runs = [plan_and_run(w, 2000, policy, dataflow) for w in (mine, theirs)]
            assert runs[0].layer_cycles == pytest.approx(runs[1].layer_cycles)
            assert runs[0].layer_busy == pytest.approx(runs[1].layer_busy)
    assert [w.ones.sum() for w in mine] == [w.ones.sum() for w in theirs]


def test_a_compact_profile_refuses_what_it_does_not_hold():
    summary = summarise(load_shipped("squeezenet"), ArraySpec(), "totals")
    mapped = map_layer(summary.layers[0], ArraySpec())
    for fidelity in ("trace", "histogram"):
        with pytest.raises(InputError, match="fidelity=totals, not"):
            summary.work(0, mapped, fidelity)
    for spec in (ArraySpec(xbar_rows=64), ArraySpec(rows_per_read=4), ArraySpec(row_order="ckk")):
        with pytest.raises(InputError, match="needs the full profile"):
            summary.work(0, map_layer(summary.layers[0], spec), "totals")
    dense = summary.work(0, map_layer(summary.layers[0], ArraySpec(skip=False)), "totals")
    assert dense.block_total.tolist() == [1024.0 * mapped.patches]


def test_a_summary_of_an_earlier_program_loads(tmp_path):
    """Files written when the policy was called `groups`, with `one_group` for one group per array."""
    new, old = tmp_path / "new.npz", tmp_path / "old.npz"
    spec = ArraySpec(grouped_policy="one_group_per_array")
    save_summary(summarise(load_shipped("squeezenet"), spec, "totals"), new)
    with np.load(new) as file:
        arrays = dict(file)
    meta = json.loads(str(arrays["meta"]))
    assert meta["array"].pop("grouped_policy") == "one_group_per_array"
    write_npz(old, arrays | {"meta": np.array(json.dumps(meta | {"array": meta["array"] | {"groups": "one_group"}}))})
    assert load(old).spec == load(new).spec == replace(spec, cols_per_adc=1)
