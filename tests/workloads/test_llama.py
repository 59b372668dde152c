"""The Llama family against published parameter counts, and the laws of its two phases."""

import time

import pytest

from cimopt import workloads
from cimopt.errors import InputError

# Sizes of the model cards' config files, and parameters as published with the weights.
PUBLISHED = {
    "Llama-2-7B": ({"layers": 32, "width": 4096, "heads": 32, "ffn": 11008, "vocab": 32000}, 6_738_415_616),
    "Llama-2-13B": ({"layers": 40, "width": 5120, "heads": 40, "ffn": 13824, "vocab": 32000}, 13_015_864_320),
    "Llama-3-8B": (
        {"layers": 32, "width": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256},
        8_030_261_248,
    ),
    "TinyLlama-1.1B": (
        {"layers": 22, "width": 2048, "heads": 32, "kv_heads": 4, "ffn": 5632, "vocab": 32000},
        1_100_048_384,
    ),
}
SEVEN = PUBLISHED["Llama-2-7B"][0]


def llama(**params):
    (found,) = workloads.load_entries({"net": {"family": "llama", "params": params}})
    return found


def products(workload):
    return sum(x.macs for x in workload.layers if x.dynamic)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name):
    """Published = our weights + the embedding (a look-up) + two norms per block and a last one."""
    sizes, parameters = PUBLISHED[name]
    embedding = sizes["vocab"] * sizes["width"]
    norms = (2 * sizes["layers"] + 1) * sizes["width"]
    for phase in ("prefill", "decode"):
        assert llama(**sizes, sequence=64, phase=phase).weights + embedding + norms == parameters


def test_prefill_macs_by_hand():
    workload = llama(**SEVEN, sequence=512)
    assert products(workload) == 32 * 2 * 32 * 512 * 512 * 128
    assert workload.macs - products(workload) == 512 * workload.weights


def test_doubling_the_sequence_quadruples_attention_and_doubles_the_rest():
    one, two = llama(**SEVEN, sequence=256), llama(**SEVEN, sequence=512)
    assert products(two) == 4 * products(one)
    assert two.macs - products(two) == 2 * (one.macs - products(one))


def test_decode_is_one_row_of_prefill():
    prefill, decode = llama(**SEVEN, sequence=512), llama(**SEVEN, sequence=512, phase="decode")
    assert 512 * decode.macs == prefill.macs
    assert products(llama(**SEVEN, sequence=1024, phase="decode")) == 2 * products(decode)


def test_grouped_queries_save_weights_not_products():
    full, shared = llama(**SEVEN, sequence=64), llama(**SEVEN, kv_heads=8, sequence=64)
    assert products(full) == products(shared)
    assert full.weights - shared.weights == 32 * 2 * 4096 * (4096 - 1024)
    operand = {x.name: x.weights for x in shared.layers}["block.qk"]
    assert operand == 32 * 64 * 1024  # keys that must be written, over all blocks


def test_a_billion_parameters_cost_as_much_as_one_block():
    """Same number of distinct layers, and the same time, for 1 and for 1,000 blocks."""
    one, many = llama(**(SEVEN | {"layers": 1}), sequence=64), llama(**(SEVEN | {"layers": 1000}), sequence=64)
    assert len(one.layers) == len(many.layers) == 10
    assert many.n_layers == 9 * 1000 + 1
    head = one.layers[-1].macs
    assert many.macs - head == 1000 * (one.macs - head)
    start = time.perf_counter()
    llama(**(SEVEN | {"layers": 1_000_000}), sequence=64)
    assert time.perf_counter() - start < 0.05


def test_zoo_attention_follows_the_same_law():
    """16 heads x 256 x 256 x 64 of GPT-2 medium, from the family's generator."""
    ours = llama(layers=24, width=1024, heads=16, ffn=4096, vocab=50257, sequence=256)
    assert products(ours) == products(workloads.load("gpt2_medium"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"family": "lama", "params": {}}, "unknown workload family 'lama'; did you mean 'llama'"),
        ({"family": "llama"}, "missing layers, width, heads, ffn, vocab, sequence"),
        ({"family": "llama", "params": SEVEN | {"sequenc": 3}}, "'sequenc'; did you mean 'sequence'"),
        ({"family": "llama", "params": SEVEN | {"sequence": 0}}, "sequence=0 must be"),
        ({"family": "llama", "params": SEVEN | {"sequence": 2.5}}, r"sequence=2\.5"),
        ({"family": "llama", "params": SEVEN | {"sequence": 8, "phase": "decod"}}, "did you mean 'decode'"),
        ({"family": "llama", "params": SEVEN | {"sequence": 8, "heads": 33}}, "no multiple of heads=33"),
        ({"family": "llama", "params": SEVEN | {"sequence": 8, "kv_heads": 5}}, "no multiple of kv_heads=5"),
        ({"family": "llama", "params": [1]}, "params must be"),
        ({"family": "llama", "source": "zoo", "params": {}}, "either family or source"),
        ({"params": {"layers": 2}}, "'layers' is a parameter of a family"),
        ({"family": "llama", "name": "other", "params": {}}, "called by its key"),
    ],
)
def test_faults_in_family_entries(entry, message):
    with pytest.raises(InputError, match=message):
        workloads.load_entries({"net": entry})


def test_configuration_choices_build_the_model():
    from cimopt.config.compose import compose_config

    for name, tokens in (("llama2_7b", 512), ("llama2_7b_decode", 1)):
        config = compose_config([f"workload={name}", f"workload.{name}.params.vocab=1000"], "config")
        (found,) = workloads.load_entries(config.workload)
        assert found.layers[-1].out_channels == 1000
        assert found.layers[-1].out_map == (tokens, 1)
