"""The evaluator: what a chip of zero-skipping arrays does with a network, per design."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cimopt_components import ComponentTables

from cimopt.errors import InputError, unknown_name
from cimopt.evaluators.base import Evaluator, names
from cimopt.evaluators.stages import Stage, StageRows
from cimopt.types import Designs, LayerTable, Limit, Metrics, Workload
from cimopt_zeroskip import prices
from cimopt_zeroskip.actions import ACTIONS, layer_actions
from cimopt_zeroskip.chip import POLICIES, ChipRun, plan_and_run
from cimopt_zeroskip.mapping import ArraySpec
from cimopt_zeroskip.networks import Network
from cimopt_zeroskip.queueing import DATAFLOWS
from cimopt_zeroskip.settings import Settings
from cimopt_zeroskip.system import BITS_PER_MB, network_bounds, pack_chip, plan_packed
from cimopt_zeroskip.work import LayerWork
from cimopt_zeroskip.writing import written

ARRAY = ("xbar_rows", "xbar_cols", "bits_per_cell", "rows_per_read", "cols_per_adc")
CHIP = (*ARRAY, "n_pes", "allocation", "dataflow")
WRITING = ("memory", "t_cycle_ns")
KEPT_NETWORKS = 32
REASONS = ("ok", "the weights do not fit into the arrays", "packed into whole PEs, the weights do not fit")
FIGURES = ("cycles", "latency_cycles", "utilization", "network", "buffer_bits")


class ZeroSkipEvaluator(Evaluator):
    """Chip of zero-skipping arrays ("Breaking Barriers", Crafton et al., 2020), cycle-exact per layer.

    ``cycles`` are those of the slowest layer: images enter at that rate (``throughput_ips``). ``latency_s`` is
    one image through all layers, one after the other. ``utilization`` is the busy share of all arrays.
    """

    name = "zeroskip"
    version = "1"
    requires = ("memory", "node_nm", "v_op", "t_cycle_ns", *CHIP, "glb_mb")
    provides = ("energy_j", "latency_s", "area_mm2", "utilization", "throughput_ips", "cycles")
    stages = (
        Stage("chip", reads=CHIP),
        Stage("prices", reads=("memory", "node_nm", "v_op", "t_cycle_ns", *ARRAY, "glb_mb"), per_network=False),
    )

    def __init__(
        self,
        profiles: Mapping[str, str] | None = None,
        fidelity: str = "trace",
        images: int | None = None,
        synthetic_images: int = 1,
        synthetic_seed: int = 0,
        skip: bool = True,
        used_rows_only: bool = False,
        floor: int = 1,
        grouped_policy: str = "block_diagonal",
        row_order: str = "kkc",
        include_linear: bool = False,
        dynamic_layers: str = "refuse",
        write: Mapping[str, float] | None = None,
        arrays_per_pe: int = 64,
        system: bool = False,
        network: Mapping[str, int | None] | None = None,
    ) -> None:
        """See conf/evaluator/zeroskip.yaml for every setting."""
        self.settings = Settings(
            profiles or {}, fidelity, images, synthetic_images, synthetic_seed, skip, used_rows_only, floor,
            grouped_policy, row_order, include_linear, dynamic_layers, write or {}, arrays_per_pe, system, network or {},
        )  # fmt: skip
        if dynamic_layers == "write":  # the time of a write depends on the memory and the clock
            self.stages = (Stage("chip", reads=(*CHIP, *WRITING)), *type(self).stages[1:])
        self._components = ComponentTables()
        self._networks: OrderedDict[str, Network] = OrderedDict()

    def cache_key(self) -> dict[str, Any]:
        """All settings; profile files by content."""
        return self.settings.plain()

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_networks": OrderedDict()}

    def network(self, workload: Workload) -> Network:
        """The workload with its profile; `Network.synthetic` tells drawn from real activations."""
        key = workload.fingerprint
        if key not in self._networks:
            self._networks[key] = Network(workload, self.settings)
            while len(self._networks) > KEPT_NETWORKS:  # searches over networks meet any number of them
                self._networks.popitem(last=False)
        self._networks.move_to_end(key)
        return self._networks[key]

    def spec(self, row: Mapping[str, Any]) -> ArraySpec:
        """The array of one design."""
        s = self.settings
        return ArraySpec(
            **{name: int(row[name]) for name in ARRAY}, skip=s.skip, used_rows_only=s.used_rows_only, floor=s.floor,
            grouped_policy=s.grouped_policy, row_order=s.row_order,
        )  # fmt: skip

    # ------------------------------------------------------------------ stages
    def stage_chip(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """Allocate and run every combination: figures ``(m, w, 5)``, actions ``(m, w, 15)``, needed arrays ``(m,)``."""
        m, w = len(params["n_pes"]), len(workloads)
        figures, actions = np.full((m, w, len(FIGURES)), np.nan), np.full((m, w, len(ACTIONS)), np.nan)
        needed, reason = np.zeros(m), np.zeros(m, dtype=np.int16)
        # Combinations with the same arrays one after the other: their work is then built once.
        for i in np.lexsort([params[name] for name in ARRAY]):
            row = {name: values[i].item() for name, values in params.items()}
            present = self._present(row)
            needed[i] = self._needed(self.spec(row), workloads)
            reason[i] = int(needed[i] > present)
            for k, workload in enumerate(workloads if not reason[i] else ()):
                works = self._works(workload, row)
                run = self._run(works, row)
                if run is None:
                    reason[i] = 2
                    break
                figures[i, k], actions[i, k] = self._figures(works, run, row)
        figures[reason > 0], actions[reason > 0] = np.nan, np.nan
        return {"figures": figures, "actions": actions, "needed": needed, "reason": reason}

    def _present(self, row: Mapping[str, Any]) -> int:
        n_pes = row["n_pes"]
        if int(n_pes) != n_pes or n_pes < 1:
            raise InputError(f"n_pes={n_pes} must be a whole number >= 1")
        for name, allowed in (("allocation", POLICIES), ("dataflow", DATAFLOWS)):
            if row[name] not in allowed:
                raise unknown_name(name, row[name], allowed)
        return int(n_pes) * self.settings.arrays_per_pe

    def _needed(self, spec: ArraySpec, workloads: Sequence[Workload]) -> int:
        """Arrays of one copy of the largest workload."""
        return max(sum(m.arrays for m in self.network(w).mapped(spec)) for w in workloads)

    def _works(self, workload: Workload, row: Mapping[str, Any]) -> list[LayerWork]:
        """Work of every layer, writing of operands included."""
        works = self.network(workload).works(self.spec(row))
        if self.settings.dynamic_layers != "write":
            return works
        return written(works, self.settings.write_spec.row_cycles(row["memory"], row["t_cycle_ns"]))

    def _run(self, works: list[LayerWork], row: Mapping[str, Any]) -> ChipRun | None:
        """The planned chip; None where packing into PEs leaves no room."""
        policy, dataflow, per_pe = row["allocation"], row["dataflow"], self.settings.arrays_per_pe
        if not self.settings.system:
            return plan_and_run(works, self._present(row), policy, dataflow)
        one_copy = [np.ones(w.mapped.blocks, dtype=np.int64) for w in works]
        if pack_chip(works, one_copy, per_pe).pes > row["n_pes"]:
            return None
        return plan_packed(works, int(row["n_pes"]), policy, dataflow, per_pe)

    def _figures(self, works: list[LayerWork], run: ChipRun, row: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        cycles, network, held = self._limits_of(works, run, int(row["n_pes"]))
        figures = np.array([cycles, run.latency_cycles, run.utilization * run.cycles / cycles, network, held])
        return figures, layer_actions(works, run, int(row["n_pes"]), cycles).sum(axis=0)

    def _limits_of(self, works: list[LayerWork], run: ChipRun, n_pes: int) -> tuple[float, float, float]:
        """Cycles per image, the network's share of them, and bits the global buffer must hold (0: not looked at)."""
        if not self.settings.system:
            return run.cycles, 0.0, 0.0
        from cimopt_zeroskip.system import buffered_bits

        packing = pack_chip(works, run.copies, self.settings.arrays_per_pe)
        network = max(network_bounds(works, run, self.settings.network_spec, n_pes, packing).values())
        return max(run.cycles, network), network, buffered_bits(works)

    def stage_prices(self, params: Mapping[str, np.ndarray], workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """Price ``(m, 15)`` of every action and area ``(m, 7)`` of every part."""
        return prices.prices(self._components, params, self.settings.write_spec)

    # ----------------------------------------------------------------- results
    def precheck(self, designs: Designs, workloads: Sequence[Workload]) -> dict[str, np.ndarray]:
        """``arrays``: by how much one copy of the largest network exceeds the arrays, as value / limit - 1."""
        columns = np.stack([np.asarray(designs[name]).astype(np.int64) for name in ARRAY], axis=1)
        kinds, which = np.unique(columns, axis=0, return_inverse=True)
        specs = [self.spec(dict(zip(ARRAY, kind, strict=True))) for kind in kinds.tolist()]
        needed = np.array([self._needed(spec, workloads) for spec in specs], dtype=float)
        return {"arrays": needed[which.reshape(-1)] / (designs["n_pes"] * self.settings.arrays_per_pe) - 1}

    def combine(
        self, tables: Mapping[str, StageRows], designs: Designs, workloads: Sequence[Workload], detail: str
    ) -> Metrics:
        """Times from the run, energy and area as dot products with the prices."""
        chip, priced = tables["chip"], tables["prices"]
        figures = dict(zip(FIGURES, np.moveaxis(chip.gather("figures"), 2, 0), strict=True))
        seconds = (designs["t_cycle_ns"] * 1e-9)[:, None]
        energy = prices.energy_parts(chip.gather("actions"), priced.gather("price"))
        reason = chip.gather("reason")
        area = self._areas(priced, designs, reason)
        values = {
            "energy_j": sum(energy.values()),
            "latency_s": figures["latency_cycles"] * seconds,
            "area_mm2": sum(area.values()),
            "utilization": figures["utilization"],
            "throughput_ips": 1.0 / (figures["cycles"] * seconds),
            "cycles": figures["cycles"],
        }
        if self.settings.system:
            values["network_cycles"] = figures["network"]
        if detail != "totals":
            values |= {f"energy_j.{k}": v for k, v in energy.items()} | {f"area_mm2.{k}": v for k, v in area.items()}
        violations, limits = self._violations(chip, figures["buffer_bits"], designs)
        layers = self._layers(designs, workloads, reason, priced.gather("price")) if detail == "layers" else {}
        return Metrics(values, names(workloads), reason, REASONS, violations, limits, layers)

    def _areas(self, priced: StageRows, designs: Designs, reason: np.ndarray) -> dict[str, np.ndarray]:
        n_pes = designs["n_pes"].astype(float)
        parts = prices.area_parts(priced.gather("area"), n_pes * self.settings.arrays_per_pe, n_pes)
        return {name: np.where(reason > 0, np.nan, values) for name, values in parts.items()}

    def _violations(
        self, chip: StageRows, held: np.ndarray, designs: Designs
    ) -> tuple[dict[str, np.ndarray], dict[str, Limit]]:
        """``arrays``; with `system` also ``pes`` (packing) and ``glb`` (feature maps against the global buffer)."""
        needed = chip.gather("needed")
        present = designs["n_pes"].astype(float) * self.settings.arrays_per_pe
        violations = {"arrays": needed / present - 1}
        limits = {"arrays": Limit(needed, present, "array")}
        if self.settings.system:
            unpacked = chip.gather("reason") == 2
            # One PE more is the least that packing can ask for.
            violations["pes"] = np.where(unpacked, 1.0 / designs["n_pes"], 0.0)
            most, room = np.nan_to_num(held.max(axis=1)), designs["glb_mb"] * float(BITS_PER_MB)
            violations["glb"] = np.where(chip.gather("reason") > 0, 0.0, most / room - 1)
            limits["glb"] = Limit(most, room, "bit")
        return violations, limits

    def _layers(
        self, designs: Designs, workloads: Sequence[Workload], reason: np.ndarray, price: np.ndarray
    ) -> dict[str, LayerTable]:
        """Per layer: energy, cycles and latency, arrays, stall (array-cycles) and utilisation as in Fig 9."""
        seconds = designs["t_cycle_ns"] * 1e-9
        tables = {}
        for workload in workloads:
            titles = (
                tuple(m.name for m in self.network(workload).mapped(self.spec(designs.row(0)))) if len(designs) else ()
            )
            columns = (
                "energy_j",
                "latency_s",
                "cycles",
                "arrays",
                "groups_per_array",
                "write_cycles",
                "stall",
                "utilization",
            )
            values = {name: np.full((len(designs), len(titles)), np.nan) for name in columns}
            for i in np.flatnonzero(reason == 0):
                row = designs.row(int(i))
                works = self._works(workload, row)
                run = self._run(works, row)
                cycles, *_ = self._limits_of(works, run, int(row["n_pes"]))
                actions = layer_actions(works, run, int(row["n_pes"]), cycles)
                values["energy_j"][i] = actions @ price[i]
                values["latency_s"][i] = run.layer_cycles * seconds[i]
                values["cycles"][i] = run.layer_cycles
                values["arrays"][i] = run.layer_arrays
                values["groups_per_array"][i] = [w.mapped.groups_per_array for w in works]
                values["write_cycles"][i] = [w.write_cycles for w in works]
                values["stall"][i] = run.layer_stall
                values["utilization"][i] = run.layer_utilization * run.cycles / cycles
            tables[workload.name] = LayerTable(titles, values)
        return tables
