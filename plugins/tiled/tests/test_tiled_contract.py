"""The evaluator kit on both presets and every space they are meant for."""

from __future__ import annotations

from typing import ClassVar

from cimopt_tiled.evaluator import TiledEvaluator
from cimopt_tiled.physical import TiledPhysical

from cimopt.testing import EvaluatorContract, space_named
from cimopt.workloads import load

NETS = ("resnet18", "mobilenet_v3")


class TestTiledPublished(EvaluatorContract):
    evaluator: ClassVar = TiledEvaluator()
    space: ClassVar = space_named("rram")
    workloads: ClassVar = tuple(load(name, source="published") for name in NETS)


class TestTiledPublishedSram(TestTiledPublished):
    evaluator: ClassVar = TiledEvaluator()
    space: ClassVar = space_named("sram")


class TestTiledPublishedTech(TestTiledPublished):
    evaluator: ClassVar = TiledEvaluator()
    space: ClassVar = space_named("sram_tech")


class TestTiledPhysical(EvaluatorContract):
    evaluator: ClassVar = TiledPhysical()
    space: ClassVar = space_named("rram")
    workloads: ClassVar = (*NETS, "vision_transformer")
    n_designs: ClassVar = 64


class TestTiledPhysicalSram(TestTiledPhysical):
    evaluator: ClassVar = TiledPhysical(batch=3, inference_period_s=0.1, grouped_policy="block_diagonal")
    space: ClassVar = space_named("sram")
    n_designs: ClassVar = 24


class TestTiledPhysicalTech(TestTiledPhysicalSram):
    evaluator: ClassVar = TiledPhysical()
    space: ClassVar = space_named("sram_tech")


class TestTiledPhysicalRramSpace(TestTiledPhysical):
    evaluator: ClassVar = TiledPhysical()
    space: ClassVar = space_named("rram_physical")


class TestTiledPhysicalSramSpace(TestTiledPhysicalSram):
    evaluator: ClassVar = TiledPhysical()
    space: ClassVar = space_named("sram_physical")


def test_the_spaces_add_the_converter_choices_and_nothing_else():
    for memory in ("rram", "sram"):
        plain, more = space_named(memory), space_named(f"{memory}_physical")
        assert more.names == (*plain.names, "adc_bits", "cols_per_adc", "rows_per_read")
        assert more.parameters.fixed == plain.parameters.fixed
        assert more.parameters.parameters[: len(plain.names)] == plain.parameters.parameters
        assert more.size == plain.size * 100
