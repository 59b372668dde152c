"""The short form of `make soak`: each fault once, in the middle of a run that stands still until it has struck."""

import math
import random

import pytest

from cimopt.evaluators.wrappers import CHUNK_S

SLEEP_S, WORKERS = 0.03, 2  # of scripts/soak_faults.py
# A chunk is told whole, so a kill costs at most one chunk per worker.
IN_FLIGHT = WORKERS * math.ceil(CHUNK_S / SLEEP_S)


@pytest.fixture(scope="module")
def soak(soak_script, tmp_path_factory):
    """The soak and its undisturbed run."""
    return soak_script.Soak(tmp_path_factory.mktemp("soak"), random.Random(), soak_script.SHORT, held=True)


@pytest.mark.parametrize("fault", ["worker", "node", "driver", "store", "disk", "interrupt"])
def test_nothing_is_lost_doubled_or_wrong(fault, soak, soak_script, request):
    if fault in ("worker", "node", "driver"):
        pytest.importorskip("ray")
    if fault == "store":
        request.getfixturevalue("postgres")  # skips where there is none
    # Ctrl-C on Ray, and the driver's death without, are left to the long form.
    soak.places = (soak_script.ALONE if fault == "interrupt" else soak_script.ON_RAY,)
    soak.chance.seed(fault)  # the same moments in every run
    count = soak_script.Count(fault)
    getattr(soak, fault)(count)
    assert count.clean, soak_script.row(count)
    assert count.paid_twice <= IN_FLIGHT, "no more than what was in flight"
