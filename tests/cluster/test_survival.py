"""The short form of `make soak`: each fault once; node and Ray worker faults are in the long form and tests/runners."""

import math
import os

import pytest

from cimopt.evaluators.wrappers import CHUNK_S

# Faults at random moments: run by `make soak`, not by every `make test`.
pytestmark = pytest.mark.skipif(not os.environ.get("CIMOPT_SOAK"), reason="random faults; make soak runs it")

SLEEP_S, WORKERS = 0.03, 2  # of scripts/soak_faults.py
# A chunk is told whole, so a kill costs at most one chunk per worker.
IN_FLIGHT = WORKERS * math.ceil(CHUNK_S / SLEEP_S)


@pytest.mark.parametrize("fault", ["driver", "store", "disk", "interrupt"])
def test_nothing_is_lost_doubled_or_wrong(fault, soak_runs, request):
    faults, one = soak_runs
    if fault == "store":
        request.getfixturevalue("postgres")  # skips where there is none
    count = faults.Count(fault)
    getattr(one, fault)(count)
    assert count.clean, faults.row(count)
    assert count.paid_twice <= IN_FLIGHT, "no more than what was in flight"
