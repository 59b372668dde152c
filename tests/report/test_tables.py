"""What people read: units, prefixes, nothing where there is no value."""

import pytest

from cimopt.report.tables import heading, number, quantity


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("energy_j", 3.4e-4, "340 uJ"),
        ("energy_j.adc", 0.0, "0 J"),
        ("latency_s", 7e-7, "700 ns"),
        ("latency_s", 2.5e-16, "0.25 fs"),
        ("area_mm2", 123.456, "123.5 mm2"),
        ("throughput_ips", 1e6, "1e+06 1/s"),
        ("tops_per_mm2", 0.01933, "0.01933"),
        ("tops_per_w", 12.25, "12.25"),
        ("utilization", 0.5, "0.5"),
        ("energy_j", None, ""),
        ("policy", "block_diagonal", "block_diagonal"),
    ],
)
def test_metrics_have_their_unit(name, value, shown):
    assert quantity(name, value) == shown


def test_parameters_have_their_unit():
    assert heading("v_op") == "v_op (V)"
    assert heading("t_cycle_ns") == "t_cycle (ns)"
    assert heading("glb_mb") == "glb (MB)"
    assert heading("xbar_rows") == "xbar_rows"


def test_numbers_are_short_and_missing_ones_empty():
    assert [number(v) for v in (1.23456, 7, "word", None, 1e-20)] == ["1.235", "7", "word", "", "1e-20"]
