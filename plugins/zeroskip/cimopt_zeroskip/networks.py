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
from cimopt_zeroskip.synthetic import SyntheticProfile, dynamic_profile, synthetic_profile
from cimopt_zeroskip.work import LayerWork, TraceWork, at_fidelity, trace_work

KEPT_BYTES = 256 << 20


class Network:
    """A workload's layers on arrays and where their activations come from."""

    def __init__(self, workload: Workload, settings: Settings) -> None:
        self.name = workload.name
        self.settings = settings
        self.layers = layers_on_arrays(workload, settings)
        self.profile = open_profile(workload, settings)
        self.drawn = dynamic_profile(workload, n_images=settings.synthetic_images, seed=settings.synthetic_seed)
        self._sources = [self._source(layer) for layer in self.layers]
        taken: dict[int, set[int]] = {id(self.profile): set(), id(self.drawn): set()}
        self._index: list[int] = []
        for layer, source in zip(self.layers, self._sources, strict=True):
            self._index.append(source.find(layer, taken[id(source)]))
            taken[id(source)].add(self._index[-1])
        self._kept: OrderedDict[ArraySpec, tuple[list[LayerWork], int]] = OrderedDict()

    @property
    def synthetic(self) -> bool:
        """Whether ones of any layer are drawn instead of counted on real activations."""
        return any(source.synthetic for source in self._sources)

    def _source(self, layer: Layer) -> Profile | SummaryProfile | SyntheticProfile:
        """Profiles hold inputs of stored weights; those of products of two activations are drawn."""
        return self.drawn if layer.dynamic else self.profile

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
        works: list[LayerWork] = []
        for i, layer in enumerate(self.layers):
            repeats = map_layers((layer,), spec)
            works.append(self._work(self._sources[i], self._index[i], repeats[0]))
            # Repeats see the same activations: one work, several places.
            works += [_renamed(works[-1], one) for one in repeats[1:]]
        return works

    def _work(self, source: Profile | SummaryProfile | SyntheticProfile, index: int, mapped: MappedLayer) -> LayerWork:
        fidelity = self.settings.fidelity
        if isinstance(source, SummaryProfile):
            return source.work(index, mapped, fidelity)
        images = list(range(min(source.n_images, self.settings.images or source.n_images)))
        return at_fidelity(trace_work(source, index, mapped, images), fidelity)

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


def layers_on_arrays(workload: Workload, settings: Settings) -> tuple[Layer, ...]:
    """Layers that live on arrays: convolutions and, if wanted, linear layers and products of two activations.

    Raises:
        InputError: nothing is left, or there is a product of two activations and no setting says what to do with it.
    """
    dynamic = [layer.name for layer in workload.layers if layer.dynamic]
    if dynamic and settings.dynamic_layers == "refuse":
        raise InputError(
            f"workload '{workload.name}' multiplies activations (layer '{dynamic[0]}'): arrays hold stationary "
            "weights; evaluator.zeroskip.dynamic_layers=write writes one operand for every image, "
            "dynamic_layers=exclude leaves such layers out"
        )
    kinds = ("conv", "linear") if settings.include_linear else ("conv",)
    written = settings.dynamic_layers == "write"
    kept = tuple(one for one in workload.layers if (written if one.dynamic else one.kind in kinds))
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
