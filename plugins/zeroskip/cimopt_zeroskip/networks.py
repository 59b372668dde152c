"""One workload on arrays of one kind: profile, layers, work. Built once per array kind and kept while room lasts."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from cimopt.errors import InputError
from cimopt.types import Layer, Workload
from cimopt_zeroskip.mapping import ArraySpec, MappedLayer, map_layers
from cimopt_zeroskip.profile import Profile, load, load_shipped, shipped
from cimopt_zeroskip.settings import SYNTHETIC, Settings
from cimopt_zeroskip.summary import SummaryProfile
from cimopt_zeroskip.synthetic import SyntheticProfile, synthetic_profile
from cimopt_zeroskip.work import LayerWork, TraceWork, at_fidelity, trace_work

KEPT_BYTES = 256 << 20


class Network:
    """A workload's stationary layers and where their activations come from."""

    def __init__(self, workload: Workload, settings: Settings) -> None:
        self.name = workload.name
        self.settings = settings
        self.layers = stationary_layers(workload, settings)
        self.profile = open_profile(workload, settings)
        taken: set[int] = set()
        self._index: dict[int, int] = {}
        for i, layer in enumerate(self.layers):
            self._index[i] = self.profile.find(layer, taken)
            taken.add(self._index[i])
        self._kept: OrderedDict[ArraySpec, tuple[list[LayerWork], int]] = OrderedDict()

    @property
    def synthetic(self) -> bool:
        """Whether ones are drawn instead of counted on real activations."""
        return self.profile.synthetic

    def mapped(self, spec: ArraySpec) -> list[MappedLayer]:
        """Layers on arrays, repeats written out."""
        return map_layers(self.layers, spec)

    def works(self, spec: ArraySpec) -> list[LayerWork]:
        """Work of every mapped layer at the chosen fidelity."""
        if spec not in self._kept:
            self._keep(spec, self._build(spec))
        self._kept.move_to_end(spec)
        return self._kept[spec][0]

    def _build(self, spec: ArraySpec) -> list[LayerWork]:
        images = list(range(min(self.profile.n_images, self.settings.images or self.profile.n_images)))
        works: list[LayerWork] = []
        for i, layer in enumerate(self.layers):
            repeats = map_layers((layer,), spec)
            works.append(self._work(self._index[i], repeats[0], images))
            # Repeats see the same activations: one work, several places.
            works += [_renamed(works[-1], one) for one in repeats[1:]]
        return works

    def _work(self, index: int, mapped: MappedLayer, images: list[int]) -> LayerWork:
        fidelity = self.settings.fidelity
        if isinstance(self.profile, SummaryProfile):
            return self.profile.work(index, mapped, fidelity)
        return at_fidelity(trace_work(self.profile, index, mapped, images), fidelity)

    def _keep(self, spec: ArraySpec, works: list[LayerWork]) -> None:
        size = sum(w.jobs.nbytes for w in works if isinstance(w, TraceWork))
        self._kept[spec] = works, size
        while len(self._kept) > 1 and sum(s for _, s in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)


def _renamed(work: LayerWork, mapped: MappedLayer) -> LayerWork:
    import copy

    twin = copy.copy(work)
    twin.mapped = mapped
    return twin


def stationary_layers(workload: Workload, settings: Settings) -> tuple[Layer, ...]:
    """Layers that live on arrays: convolutions and, if wanted, linear layers.

    Raises:
        InputError: nothing is left, or a product of two activations is neither refused knowingly nor excluded.
    """
    dynamic = [layer.name for layer in workload.layers if layer.dynamic]
    if dynamic and settings.dynamic_layers == "refuse":
        raise InputError(
            f"workload '{workload.name}' multiplies activations (layer '{dynamic[0]}'): arrays hold stationary "
            "weights; evaluator.zeroskip.dynamic_layers=exclude leaves such layers out"
        )
    kinds = ("conv", "linear") if settings.include_linear else ("conv",)
    kept = tuple(layer for layer in workload.layers if not layer.dynamic and layer.kind in kinds)
    if not kept:
        raise InputError(
            f"workload '{workload.name}' has no convolution; evaluator.zeroskip.include_linear=true maps its "
            "linear layers"
        )
    return kept


def open_profile(workload: Workload, settings: Settings) -> Profile | SummaryProfile | SyntheticProfile:
    """The profile a setting names; else the shipped one of that network; else a synthetic one."""
    named = settings.profiles.get(workload.name)
    if named is None and workload.name in shipped():
        named = workload.name
    if named is None or named == SYNTHETIC:
        return synthetic_profile(workload, n_images=settings.synthetic_images, seed=settings.synthetic_seed)
    return load_shipped(named) if named in shipped() else load(Path(named).expanduser())
