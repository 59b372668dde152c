"""SCALE-Sim topology CSV: convolutions (eight columns) or matrix products (layer, M, N, K).

Public files have trailing commas, blank lines, notes in further columns, and headers in many
spellings: all accepted, and said. What is not accepted is a number that is none.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cimopt.errors import InputError, unknown_name
from cimopt.types import Layer, Workload
from cimopt.workloads.importers.chain import chain_warnings
from cimopt.workloads.importers.options import MAX_SIZE, Imported, Names, Options, label, short
from cimopt.workloads.importers.windows import padded_window, window_count
from cimopt.workloads.safe_yaml import read_text

CONV_COLUMNS = (
    "Layer name", "IFMAP Height", "IFMAP Width", "Filter Height", "Filter Width", "Channels", "Num Filter", "Strides",
)  # fmt: skip
GEMM_COLUMNS = ("Layer", "M", "N", "K")
EXTRA_COLUMNS = ("Padding", "Groups", "Batch")  # our own, needed by `--padding explicit`
MAX_ROWS = 100_000
_SAME = {
    "layer": "layer name", "name": "layer name", "layername": "layer name", "stride": "strides",
    "num filters": "num filter", "number of filters": "num filter", "filters": "num filter", "channel": "channels",
    "ifmap h": "ifmap height", "ifmap w": "ifmap width", "filter h": "filter height", "filter w": "filter width",
    "pad": "padding", "group": "groups",
}  # fmt: skip
_ATTENTION = re.compile(r"^(qk|qkt|qktv|q_?kt?|av|sv|scores?|attn|attention)\b", re.I)


@dataclass(frozen=True)
class _Table:
    """Rows as {column: cell}, lower-case columns, with the line each stood on."""

    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]
    unread: tuple[str, ...]


def read(path: Path, options: Options) -> Imported:
    """The layers of one topology file."""
    table = _table(path)
    is_gemm = "ifmap height" not in table.columns
    names, notes, layers, extents = Names(), [], [], []
    if not is_gemm and options.padding == "explicit" and "padding" not in table.columns:
        raise InputError(f"{path}: --padding explicit needs a column 'Padding' (pixels on each side)")
    if table.unread:
        notes.append(f"columns not read: {', '.join(table.unread)}")
    for line, row in table.rows:
        cells = _Cells(row, path, line, options)
        wanted = row.get("layer name") or f"layer{len(layers)}"  # a row may be shorter than its header
        name = names.unique(wanted)
        if name != wanted:
            notes.append(f"line {line}: a second layer named '{wanted}' is called '{name}'")
        layer, extent = _gemm(cells, name, options) if is_gemm else _conv(cells, name, options)
        layers.append(layer)
        extents.append(extent)
    # After the cells: a symbol is the first thing to mend, and has nothing to do with padding.
    if not is_gemm and options.padding is None:
        raise InputError(
            f"{path}: SCALE-Sim files do not say how convolutions are padded: choose --padding same, valid or explicit "
            "(explicit: a column 'Padding')"
        )
    workload = Workload(
        name=options.name or path.stem or "scalesim",
        layers=tuple(layers),
        variant=f"imported, {options.padding} padding" if options.padding and not is_gemm else "imported",
        source=f"SCALE-Sim topology {path.name}",
    )
    warnings = _gemm_doubts(workload.layers) if is_gemm else chain_warnings(workload.layers, extents)
    return Imported(workload, "scalesim", notes=tuple(notes), warnings=tuple(warnings))


class _Cells:
    """Numbers of one row; a symbol is bound by option or is an error naming its column and line."""

    def __init__(self, row: dict[str, str], file: Path, line: int, options: Options) -> None:
        self._row, self._bind, self.file, self.line = row, options.bind, file, line
        self.spot = f"line {line} of {file}"

    def number(self, column: str, low: int = 1) -> int:
        title = next(c for c in (*CONV_COLUMNS, *GEMM_COLUMNS, *EXTRA_COLUMNS) if c.lower() == column)
        text = self._row.get(column, "")
        if text in self._bind:
            return self._bind[text]
        if re.fullmatch(r"[A-Za-z_]\w*", text):
            raise InputError(
                f"symbol {text[:40]} in column {title}, line {self.line} of {self.file}: "
                f"give its size by --bind {text[:40]}=SIZE"
            )
        # A spreadsheet writes 64 as 64.0
        if not re.fullmatch(r"[0-9]{1,12}(\.0{1,6})?", text) or not low <= int(text.split(".")[0]) < MAX_SIZE:
            raise InputError(f"column {title}, {self.spot}: {short(text)} must be a whole number >= {low}")
        return int(text.split(".")[0])

    def optional(self, column: str, default: int, low: int = 1) -> int:
        return self.number(column, low) if self._row.get(column) else default


def _gemm(cells: _Cells, name: str, options: Options) -> tuple[Layer, tuple[int, int]]:
    """(M x K) times (K x N): the second operand holds the weights, unless the layer is named as dynamic."""
    rows, columns, inner = (cells.number(c) for c in ("m", "n", "k"))
    is_dynamic = name in options.dynamic
    layer = Layer(
        name=name,
        kind="matmul" if is_dynamic else "linear",
        in_channels=inner,
        out_channels=columns,
        out_map=(rows, 1),
        dynamic=is_dynamic,
    )
    return layer, (rows, 1)


def _conv(cells: _Cells, name: str, options: Options) -> tuple[Layer, tuple[int, int]]:
    extent = (cells.number("ifmap height"), cells.number("ifmap width"))
    kernel = (cells.number("filter height"), cells.number("filter width"))
    channels, filters, stride = (cells.number(c) for c in ("channels", "num filter", "strides"))
    groups = cells.optional("groups", 1)
    if options.depthwise and filters == 1 and channels > 1 and groups == 1:
        groups = filters = channels
    explicit = cells.optional("padding", 0, low=0) if options.padding == "explicit" else 0
    sides = [
        padded_window(size, k, stride, options.padding or "same", (explicit, explicit))
        for size, k in zip(extent, kernel, strict=True)
    ]
    out_map = tuple(window_count(size, k, stride, pads) for size, k, pads in zip(extent, kernel, sides, strict=True))
    if min(out_map) < 1:
        raise InputError(
            f"{cells.spot}, layer '{name}': a {kernel[0]}x{kernel[1]} filter does not fit into {extent[0]}x{extent[1]}"
        )
    is_linear = out_map == (1, 1) and kernel == (1, 1) and stride == 1 and groups == 1
    try:
        layer = Layer(
            name=name, kind="linear" if is_linear else "conv", in_channels=channels, out_channels=filters,
            kernel=kernel, stride=(stride, stride), padding=(sides[0][0], sides[1][0], sides[0][1], sides[1][1]),
            groups=groups, out_map=out_map, batch=cells.optional("batch", 1),
        )  # fmt: skip
    except InputError as error:
        raise InputError(f"{cells.spot}: {error}") from None
    return layer, extent


def _gemm_doubts(layers: Sequence[Layer]) -> list[str]:
    """Products that are called like attention but listed like weights."""
    doubtful = [x.name for x in layers if not x.dynamic and _ATTENTION.match(x.name)]
    if not doubtful:
        return []
    flags = " ".join(f"--dynamic {name}" for name in doubtful[:4])
    return [
        f"{', '.join(doubtful[:4])}: named like attention products, yet counted as one head with stationary weights; "
        f"the file states no heads. If both operands are activations: {flags}"
    ]


def looks_like(text: str) -> bool:
    """Whether CSV text starts with one of the known headers."""
    first = next((line for line in text.splitlines() if line.strip(" ,;\t")), "")
    columns = {_normal(cell) for cell in first.split(",")}
    return "ifmap height" in columns or {"m", "n", "k"} <= columns


def _table(path: Path) -> _Table:
    text = read_text(path, "SCALE-Sim file")
    lines = [(i, cells) for i, cells in enumerate(_split(text, path), 1) if any(c.strip() for c in cells)]
    if not lines:
        raise InputError(f"{path}: the file is empty")
    if len(lines) > MAX_ROWS:
        raise InputError(f"{path}: {len(lines)} rows; at most {MAX_ROWS} are read")
    columns, unread = _header(lines[0][1], f"{path}, line {lines[0][0]}")
    rows = []
    for number, cells in lines[1:]:
        rows.append((number, {c: cell.strip() for c, cell in zip(columns, cells, strict=False) if c}))
        if len(cells) < sum(bool(c) for c in columns) and len(rows[-1][1]) < _needed(columns):
            raise InputError(
                f"{path}, line {number}: {len(cells)} cells, but the header names {_needed(columns)} columns"
            )
    if not rows:
        raise InputError(f"{path}: a header and no layer")
    return _Table(columns, tuple(rows), unread)


def _split(text: str, path: Path) -> list[list[str]]:
    try:
        return list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"{path} is no CSV file: {error}") from None


def _needed(columns: Sequence[str]) -> int:
    return len(CONV_COLUMNS) if "ifmap height" in columns else len(GEMM_COLUMNS)


def _normal(cell: str) -> str:
    name = re.sub(r"[\s_\-]+", " ", cell.strip().strip("'\"").lower())
    return _SAME.get(name, name)


def _header(cells: Sequence[str], spot: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lower-case names of the columns that are read ("" for others), and the titles that are not."""
    normal = [_normal(cell) for cell in cells]
    is_gemm = {"m", "n", "k"} <= set(normal)
    wanted = ["layer name", "m", "n", "k"] if is_gemm else [c.lower() for c in CONV_COLUMNS]
    missing = [c for c in wanted if c not in normal]
    if missing:
        others = [c.strip() for c, n in zip(cells, normal, strict=True) if c.strip() and n not in wanted]
        titles = GEMM_COLUMNS if is_gemm else CONV_COLUMNS
        if others:
            raise unknown_name(f"column in {spot}:", label(others[0]), titles)
        raise InputError(f"{spot}: no column {', '.join(missing)}")
    known = {*wanted, *(c.lower() for c in EXTRA_COLUMNS)}
    columns = tuple(n if n in known else "" for n in normal)
    repeated = next((c for c in columns if c and columns.count(c) > 1), None)
    if repeated:
        raise InputError(f"{spot}: two columns are named '{repeated}'")
    unread = tuple(label(c.strip()) for c, n in zip(cells, columns, strict=True) if c.strip() and not n)
    return columns, unread
