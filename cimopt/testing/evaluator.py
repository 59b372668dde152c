"""The kit every evaluator passes, built-in or a stranger's."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from cimopt.config.compose import compose
from cimopt.errors import InputError
from cimopt.evaluators.base import Evaluator, check_metrics, names
from cimopt.space import SearchSpace, from_config
from cimopt.types import Designs, Metrics, Workload
from cimopt.workloads import load

RELATIVE = 1e-9  # breakdowns sum to totals within this


def space_named(name: str) -> SearchSpace:
    """A space by its config name, plug-ins' spaces included."""
    return from_config(compose([f"space={name}"])["space"])


class EvaluatorContract:
    """Subclass and set `evaluator`, `space` (a name or a SearchSpace) and `workloads` (names or Workloads).

    `upstream` gives values of earlier evaluators' metrics for evaluators that stand in a chain:
    name -> per-design shape "n" or per-workload "nw" (random positive values are used).
    `n_designs` random designs are drawn with a fixed seed.
    """

    evaluator: ClassVar[Evaluator]
    space: ClassVar[str | SearchSpace] = "rram"
    workloads: ClassVar[Sequence[str | Workload]] = ("resnet18", "alexnet")
    upstream: ClassVar[dict[str, str]] = {}
    n_designs: ClassVar[int] = 24

    # ------------------------------------------------------------- material
    @pytest.fixture
    def nets(self) -> tuple[Workload, ...]:
        return tuple(load(w) if isinstance(w, str) else w for w in self.workloads)

    @pytest.fixture
    def designs(self, nets: tuple[Workload, ...]) -> Designs:
        space = space_named(self.space) if isinstance(self.space, str) else self.space
        rng = np.random.default_rng(7)
        n = self.n_designs
        shapes = {"n": (n,), "nw": (n, len(nets))}
        upstream = {name: rng.uniform(0.5, 2.0, shapes[kind]) for name, kind in self.upstream.items()}
        return space.designs(space.sample(n, rng)).with_upstream(upstream)

    # ---------------------------------------------------------------- tests
    def test_says_who_it_is(self) -> None:
        e = self.evaluator
        assert e.name, "the name is part of cache keys"
        assert e.version, "the version is part of cache keys"
        assert e.provides, "an evaluator provides at least one metric"
        assert len(set(e.provides)) == len(e.provides)

    def test_metrics_keep_the_contract(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        metrics = self.evaluator.evaluate(designs, nets)
        check_metrics(self.evaluator, metrics, len(designs), nets)
        for name in self.evaluator.provides:
            values = metrics.values[name][metrics.ok]
            assert (values >= 0).all(), f"{name} is negative"

    def test_gives_results_somewhere(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        metrics = self.evaluator.evaluate(designs, nets)
        states = {metrics.outcome(i).state for i in range(len(designs))}
        assert "error" not in states, [r for r in metrics.reasons if r != "ok"]
        assert states & {"ok", "infeasible"}

    def test_same_input_same_result(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        assert_same(self.evaluator.evaluate(designs, nets), self.evaluator.evaluate(designs, nets))

    def test_a_design_does_not_depend_on_its_batch(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        together = self.evaluator.evaluate(designs, nets)
        order = np.random.default_rng(3).permutation(len(designs))
        shuffled = self.evaluator.evaluate(designs.take(order), nets)
        assert_same(together.take(order), shuffled, exact=False)
        alone = self.evaluator.evaluate(designs.take(slice(2, 3)), nets)
        assert_same(together.take(slice(2, 3)), alone, exact=False)

    def test_networks_may_change_between_calls(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        """A search over networks calls with other layers under the same names; nothing of the last call may stay."""
        other = tuple(replace(net, layers=net.layers[: max(1, len(net.layers) // 2)]) for net in nets)
        first, changed = self.evaluator.evaluate(designs, nets), self.evaluator.evaluate(designs, other)
        assert_same(changed, pickle.loads(pickle.dumps(self.evaluator)).evaluate(designs, other))
        assert_same(first, self.evaluator.evaluate(designs, nets))

    def test_leaves_its_input_alone(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        before = designs.genes.copy()
        values = {k: v.copy() for k, v in designs.upstream.items()}
        self.evaluator.evaluate(designs, nets, "components")
        assert np.array_equal(before, designs.genes)
        for k, v in values.items():
            assert np.array_equal(v, designs.upstream[k])

    def test_travels_to_workers(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        fresh = pickle.loads(pickle.dumps(self.evaluator))
        used = self.evaluator.evaluate(designs, nets)
        assert_same(used, fresh.evaluate(designs, nets))
        assert_same(used, pickle.loads(pickle.dumps(fresh)).evaluate(designs, nets))

    def test_breakdowns_sum_to_totals(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        metrics = self.evaluator.evaluate(designs, nets, "components")
        for total in self.evaluator.provides:
            parts = [v for k, v in metrics.values.items() if k.startswith(f"{total}.")]
            if parts:
                assert all((p[metrics.ok] >= 0).all() for p in parts), f"a part of {total} is negative"
                np.testing.assert_allclose(sum(parts), metrics.values[total], rtol=RELATIVE, err_msg=total)

    def test_layers_sum_to_totals(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        metrics = self.evaluator.evaluate(designs, nets, "layers")
        for w, name in enumerate(names(nets)):
            table = metrics.layers.get(name)
            for metric in ("energy_j", "latency_s"):
                if table is not None and metric in table.values and metric in metrics.values:
                    total = table.values[metric].sum(axis=1)
                    np.testing.assert_allclose(total[metrics.ok], metrics.values[metric][metrics.ok, w], rtol=RELATIVE)

    def test_details_do_not_change_totals(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        totals = self.evaluator.evaluate(designs, nets)
        for detail in ("components", "layers"):
            more = self.evaluator.evaluate(designs, nets, detail)
            for name in self.evaluator.provides:
                np.testing.assert_allclose(more.values[name], totals.values[name], rtol=RELATIVE, err_msg=name)

    def test_precheck_agrees_with_evaluate(self, designs: Designs, nets: tuple[Workload, ...]) -> None:
        metrics = self.evaluator.evaluate(designs, nets)
        for name, amount in self.evaluator.precheck(designs, nets).items():
            assert amount.shape == (len(designs),)
            given = metrics.violations.get(name, np.zeros(len(designs)))
            assert np.array_equal(amount > 0, given > 0), f"precheck and evaluate disagree on '{name}'"

    def test_refuses_unknown_settings(self) -> None:
        kind: Any = type(self.evaluator)
        with pytest.raises(InputError, match="no_such_setting"):
            kind.from_config({"no_such_setting": 1})


def assert_same(a: Metrics, b: Metrics, *, exact: bool = True) -> None:
    """Equal metrics; `exact=False` allows the last digits that summation order may change."""
    assert [a.outcome(i).state for i in range(len(a))] == [b.outcome(i).state for i in range(len(b))]
    rtol = 0.0 if exact else 1e-12
    for mine, theirs in ((a.values, b.values), (a.violations, b.violations)):
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=rtol, atol=0, err_msg=name)
