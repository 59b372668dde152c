"""The authors' simulator as an oracle: cycles, stalls, allocations (paper-correct values, exact)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cimopt_zeroskip import allocate, im2col, op_cycles, popcounts, simulate

from cimopt.types import Layer

ORACLE = Path(__file__).resolve().parents[3].parent / "shared" / "reference" / "zeroskip_oracle.json"


@pytest.fixture(scope="module")
def oracle() -> dict:
    """The shared oracle file; skipped where it is absent."""
    if not ORACLE.is_file():
        pytest.skip("the reference folder is not beside this checkout")
    return json.loads(ORACLE.read_text())


def _patches(case: dict) -> np.ndarray:
    return np.array([list(bytes.fromhex(p)) for p in case["patches_hex"]], dtype=np.uint8)


def _per_read(case: dict) -> np.ndarray | int:
    return case["adc"] if isinstance(case["rows_per_read"], str) else np.array(case["rows_per_read"])


def test_every_case_has_the_oracles_ones_and_cycles(oracle):
    for case in oracle["cases"]:
        ones = popcounts(_patches(case), rows_per_block=case["wl"], input_bits=8)
        assert ones.tolist() == case["popcount"], case["name"]
        given = {"weight_bits": 8, "rows_per_block": case["wl"]}
        assert op_cycles(ones, rows_per_read=_per_read(case), skip=True, **given).tolist() == case["op_cycles_skip"]
        dense = op_cycles(ones, rows_per_read=case["adc"], skip=False, **given)
        assert dense.tolist() == case["op_cycles_noskip"]


def test_every_run_has_the_oracles_cycles_busy_and_stall(oracle):
    seen = 0
    for case in oracle["cases"]:
        ones = popcounts(_patches(case), rows_per_block=case["wl"], input_bits=8)
        for run in case["runs"]:
            per_read = _per_read(case) if run["skip"] else case["adc"]
            times = op_cycles(ones, rows_per_read=per_read, weight_bits=8, skip=bool(run["skip"]), rows_per_block=128)
            for compiled in (True, False):
                mine = simulate(
                    times,
                    run["alloc"],
                    dataflow=run["mode"],
                    arrays_per_block=case["arrays_per_block"],
                    compiled=compiled,
                )
                assert mine.cycles == run["ideal_cycle"], (case["name"], run["mode"], run["alloc"])
                assert mine.stall == run["ideal_stall_array_cycles"]
                assert mine.block_busy.tolist() == run["sim_block_busy"]
                assert mine.busy == case["arrays_per_block"] * sum(run["sim_block_busy"])
            seen += 1
    assert seen == sum(len(case["runs"]) for case in oracle["cases"]) > 20


def test_patches_of_an_image_are_the_oracles(oracle):
    cases = [case for case in oracle["cases"] if "image_hex" in case]
    assert cases
    for case in cases:
        image = np.frombuffer(bytes.fromhex(case["image_hex"]), np.uint8).reshape(case["image_shape"])
        k, s, pad = case["kernel"], case["stride"], case["pad"]
        out = (image.shape[0] + 2 * pad - k) // s + 1
        layer = Layer("one", "conv", image.shape[2], 16, (k, k), (s, s), (pad,) * 4, out_map=(out, out))
        assert np.array_equal(im2col(image, layer), _patches(case))


def test_allocation_micro_cases(oracle):
    for case in oracle["alloc"]:
        work = np.array(case["nmac"]) / np.array(case["mac_per_array"])
        copies = allocate(work, case["factor"], case["narray"])
        assert (copies * case["factor"]).tolist() == case["alloc"]
