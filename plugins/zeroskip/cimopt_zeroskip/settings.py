"""Settings of the evaluator, checked when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cimopt.errors import InputError, unknown_name
from cimopt_zeroskip.mapping import GROUP_POLICIES, ROW_ORDERS
from cimopt_zeroskip.profile import shipped
from cimopt_zeroskip.system import ARRAYS_PER_PE, NetworkSpec
from cimopt_zeroskip.work import FIDELITIES
from cimopt_zeroskip.writing import WriteSpec

DYNAMIC = ("refuse", "exclude", "write")
SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class Settings:
    """All settings; the text of each is in conf/evaluator/zeroskip.yaml."""

    profiles: Mapping[str, str] = field(default_factory=dict)
    fidelity: str = "trace"
    images: int | None = None
    synthetic_images: int = 1
    synthetic_seed: int = 0
    skip: bool = True
    used_rows_only: bool = False
    floor: int = 1
    grouped_policy: str = "block_diagonal"
    row_order: str = "kkc"
    include_linear: bool = False
    dynamic_layers: str = "refuse"
    write: Mapping[str, float] = field(default_factory=dict)
    arrays_per_pe: int = ARRAYS_PER_PE
    system: bool = False
    network: Mapping[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, allowed in (
            ("fidelity", FIDELITIES), ("grouped_policy", GROUP_POLICIES), ("row_order", ROW_ORDERS),
            ("dynamic_layers", DYNAMIC), ("floor", (0, 1)),
        ):  # fmt: skip
            if getattr(self, key) not in allowed:
                raise unknown_name(f"evaluator.zeroskip.{key}", getattr(self, key), allowed)
        for key in ("skip", "used_rows_only", "include_linear", "system"):
            if not isinstance(getattr(self, key), bool):
                raise InputError(f"evaluator.zeroskip.{key}={getattr(self, key)!r} must be true or false")
        for key, low in (
            ("synthetic_images", 1),
            ("synthetic_seed", 0),
            ("arrays_per_pe", 1),
            ("images", 1),
        ):
            value = getattr(self, key)
            if not (type(value) is int and value >= low) and not (key == "images" and value is None):
                raise InputError(f"evaluator.zeroskip.{key}={value!r} must be a whole number >= {low}")
        self._check_profiles()
        _ = self.network_spec, self.write_spec

    def _check_profiles(self) -> None:
        if not isinstance(self.profiles, Mapping):
            raise InputError(f"evaluator.zeroskip.profiles={self.profiles!r} must map networks to profiles")
        for network, value in self.profiles.items():
            if not isinstance(value, str):
                raise InputError(f"evaluator.zeroskip.profiles.{network}={value!r} must be text")
            if value != SYNTHETIC and value not in shipped() and not Path(value).suffix:
                raise unknown_name(f"profile for '{network}', or a file MINE.npz:", value, (*shipped(), SYNTHETIC))

    @property
    def network_spec(self) -> NetworkSpec:
        """The network around the arrays."""
        known = [f.name for f in fields(NetworkSpec)]
        for key in self.network:
            if key not in known:
                raise unknown_name("key in evaluator.zeroskip.network", key, known)
        return NetworkSpec(**self.network)

    @property
    def write_spec(self) -> WriteSpec:
        """How operands of products of two activations are written."""
        known = [f.name for f in fields(WriteSpec)]
        for key, value in self.write.items():
            if key not in known:
                raise unknown_name("key in evaluator.zeroskip.write", key, known)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InputError(f"evaluator.zeroskip.write.{key}={value!r} must be a number > 0")
        return WriteSpec(**self.write)

    def plain(self) -> dict[str, Any]:
        """All values, for cache keys; profile files by content."""
        from cimopt_zeroskip.profiling.onnx_run import sha256

        values = asdict(self) | {"profiles": dict(self.profiles), "network": asdict(self.network_spec)}
        values["write"] = asdict(self.write_spec)
        files = {n: Path(v) for n, v in self.profiles.items() if Path(v).suffix and Path(v).is_file()}
        return values | {"profile_files": {n: sha256(p) for n, p in files.items()}}
