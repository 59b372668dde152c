"""Conformance kits for plug-in authors: subclass one, set its attributes, and pytest does the rest.

class TestMine(EvaluatorContract):
    evaluator = Mine()
    space = "rram"
    workloads = ("resnet18",)
"""

from cimopt.testing.evaluator import EvaluatorContract, space_named
from cimopt.testing.runner import RunnerContract
from cimopt.testing.sampler import SamplerContract

__all__ = ["EvaluatorContract", "RunnerContract", "SamplerContract", "space_named"]
