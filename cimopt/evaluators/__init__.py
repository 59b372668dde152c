"""Evaluators: the contract (`base`), chains, wrappers, and the slow-model helper."""

from cimopt.evaluators.base import Evaluator, names
from cimopt.evaluators.chain import Chain
from cimopt.evaluators.one_by_one import Infeasible, OneByOneEvaluator
from cimopt.evaluators.per_network import PerNetwork
from cimopt.evaluators.stages import Stage, StageRows
from cimopt.evaluators.wrappers import Cached, Guarded, Spread

__all__ = [
    "Cached", "Chain", "Evaluator", "Guarded", "Infeasible", "OneByOneEvaluator", "PerNetwork", "Spread", "Stage", "StageRows",
    "names",
]  # fmt: skip
