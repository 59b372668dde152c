"""Regenerate the component tables through hwcomponents, where it is installed, and compare with the shipped ones.

    python plugins/components/scripts/regenerate.py --out NEW_FOLDER [--tables buffers,arrays_rram,routers,adc]
    python plugins/components/scripts/regenerate.py --seal        # provenance columns and manifest only

Needs an environment of its own (Python 3.12 or newer) with hwcomponents, hwcomponents-cacti,
hwcomponents-neurosim, hwcomponents-library and hwcomponents-adc; this package and cimopt are not imported.
Shipped tables are never overwritten: new ones go to ``--out`` and the differences are printed. What could be
regenerated when the tables were last checked, and how far they agree, stands in ``data/SOURCES.md``.

arrays_sram.csv cannot be regenerated this way: the cell description behind it is not public in full.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "cimopt_components" / "data"
VERSION = "1.1"
TEXT_COLUMNS = ("source", "validated")
UNVALIDATED_NODES = {"65", "90"}
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
PJ, UM2 = 1e12, 1e12  # from J and m2

# The RRAM cell of arXiv 2603.03880 (numbers of CiMLoop's cell file rram_neurosim_default): 48 F2, 6 k / 900 kohm,
# read at 0.5 V, written at 2 V for 50 ns through an access transistor of 195 kohm, LSTP roadmap.
RRAM_CELL = {
    "-MemCellType": "RRAM", "-DeviceRoadmap -1LP 1HP 2LSTP": 2, "-CellArea (F^2)": 48, "-CellAspectRatio": 0.333,
    "-CellReadLeakEnergyMultiplier": 1, "-CellWriteEnergyMultiplier": 1, "-CellCapacitanceMultiplier": 1,
    "-CellCapacitanceAdjust (F)": 0, "-AccessCMOSWidth (F)": 10, "-ReadMode": "current",
    "-SRAMCellNMOSWidth (F)": 2, "-SRAMCellPMOSWidth (F)": 2, "-MinSenseVoltage (mV)": 20,
    "-ResistanceOn (ohm)": 6e3, "-ResistanceOff (ohm)": 9e5, "-SetVoltage (V)": 2, "-SetPulse (ns)": 50,
    "-ReadVoltage (V)": 0.5, "-ReadPulse (ns)": 2, "-AccessType": "CMOS",
    "-AccessTransistorResistance (ohm)": 1.95e5, "-AccessVoltage (V)": 1.1,
}  # fmt: skip
# How the arrays are used: 8-bit inputs as pulse trains of 10 ns pulses, 5-bit converters on every column.
ARRAY_USE = {
    "cycle_period": 1e-9, "read_pulse_width": 1e-8, "adc_resolution": 5, "voltage_dac_bits": 1,
    "temporal_dac_bits": 8, "temporal_spiking": True,
}  # fmt: skip

Row = dict[str, str]


def read(name: str, folder: Path = DATA) -> list[Row]:
    """Rows of a table as text."""
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# --------------------------------------------------------------------- tables
def buffers(rows: Iterable[Row]) -> list[Row]:
    """CACTI 7 for every listed geometry, and the adder that forms its addresses."""
    from hwcomponents_cacti import SRAM
    from hwcomponents_library.library.aladdin import AladdinAdder

    found = []
    for row in rows:
        width, depth, node = int(row["width"]), int(row["depth"]), float(row["node_nm"]) * 1e-9
        sram = SRAM(tech_node=node, width=width, depth=depth, size=width * depth)
        adder = AladdinAdder(tech_node=node, width=(depth - 1).bit_length())
        got, put = sram.read(), sram.write()
        values = {
            "r": got.energy * PJ, "w": put.energy * PJ, "area": sram.area * UM2, "leak": sram.leak_power,
            "lat": got.latency, "thr": got.throughput, "add": adder.add().energy * PJ, "add_area": adder.area * UM2,
        }  # fmt: skip
        found.append(row | {k: f"{v:.7g}" for k, v in values.items()})
    return found


def arrays_rram(rows: Iterable[Row]) -> list[Row]:
    """NeuroSim V1.3 for every listed RRAM array."""
    import hwcomponents_neurosim as neurosim

    parts = {"cell": neurosim.MemoryCell, "row": neurosim.RowDrivers, "col": neurosim.ColDrivers, "adc": neurosim.ADC}
    with tempfile.TemporaryDirectory() as folder:
        cell = Path(folder) / "rram.cell"
        cell.write_text("".join(f"{key}: {value}\n" for key, value in RRAM_CELL.items()))
        return [_one_array(row, parts, str(cell)) for row in rows]


def _one_array(row: Row, parts: dict[str, Callable], cell: str) -> Row:
    rows, cols = int(row["xbar_rows"]), int(row["xbar_cols"])
    place = {"rows": rows, "cols": cols, "cols_active_at_once": cols, "voltage": float(row["v_op"])}
    found = dict(row)
    for (a, w), (name, kind) in itertools.product(CORNERS, parts.items()):
        part = kind(
            tech_node=float(row["node_nm"]) * 1e-9, cell_config=cell, average_input_value=a, average_cell_value=w,
            **place, **ARRAY_USE,
        )  # fmt: skip
        values = {
            f"{name}_r{a}{w}": part.read().energy * PJ, f"{name}_w{a}{w}": part.write().energy * PJ,
            f"{name}_area": part.area * UM2, f"{name}_leak": part.leak_power,
        }  # fmt: skip
        found |= {k: f"{v:.7g}" for k, v in values.items() if k in row}
    return found


def routers(rows: Iterable[Row]) -> list[Row]:
    """The library's ISAAC router shared by four, 128 bits wide; the fitted column is left as it is."""
    from hwcomponents_library.library.isaac import IsaacRouterSharedByFour

    found = []
    for row in rows:
        router = IsaacRouterSharedByFour(tech_node=float(row["node_nm"]) * 1e-9, width=128)
        values = {"library_pj": router.read().energy * PJ, "area_um2": router.area * UM2}
        found.append(row | {k: f"{v:.7g}" for k, v in values.items()})
    return found


def adc_resolution(rows: Iterable[Row]) -> list[Row]:
    """Beyond 10 bits: the step of the hwcomponents-adc survey regression per bit at 32 nm and 100 MS/s."""
    from hwcomponents_adc import ADC

    found: list[Row] = []
    for row in rows:
        bits = int(row["bits"])
        if bits > 10:
            now, before = (ADC(n_bits=b, tech_node=32e-9, throughput=1e8).get_energy() for b in (bits, bits - 1))
            energy = float(found[-1]["energy_pj"]) * now / before
            row = row | {"energy_pj": f"{energy:.4g}", "area_um2": f"{2 * float(found[-1]['area_um2']):.7g}"}
        found.append(row)
    return found


TABLES: dict[str, tuple[str, Callable[[Iterable[Row]], list[Row]]]] = {
    "buffers": ("buffers.csv", buffers),
    "arrays_rram": ("arrays_rram.csv", arrays_rram),
    "routers": ("routers.csv", routers),
    "adc": ("adc_resolution.csv", adc_resolution),
}


# ----------------------------------------------------------------- comparison
def differences(old: list[Row], new: list[Row]) -> list[str]:
    """One line per computed column: how many rows agree to 1e-5, and the ratios of the others."""
    lines = []
    for column in old[0]:
        if column in TEXT_COLUMNS:
            continue
        pairs = [(float(a[column]), float(b[column])) for a, b in zip(old, new, strict=True)]
        ratios = sorted(b / a for a, b in pairs if a)
        off = [r for r in ratios if abs(r - 1) > 1e-5]
        zero = sum(1 for a, b in pairs if not a and b)
        text = f"  {column:<12} {len(pairs) - len(off) - zero:>5} of {len(pairs)} rows agree"
        if off:
            text += f"; new/shipped of the others {off[0]:.4g} .. {off[len(off) // 2]:.4g} .. {off[-1]:.4g}"
        lines.append(text + (f"; {zero} shipped as 0" if zero else ""))
    return lines


# ----------------------------------------------------------------- provenance
def source_of(table: str, row: Row) -> str:
    """Short name of where a row's numbers come from; the long one stands in SOURCES.md."""
    if table.startswith("arrays"):
        return "neurosim-1.3"
    if table == "buffers.csv":
        return "cacti-7+library-adder"
    if table == "routers.csv":
        return "isaac-router" if float(row["node_nm"]) >= 32 else "isaac-router+published-points"
    return row["source"]


def seal() -> None:
    """Write the provenance columns and the manifest: version and content hash of every table."""
    digests = {}
    for path in sorted(DATA.glob("*.csv")):
        rows = [{k: v for k, v in row.items() if k != "validated"} for row in read(path.name)]
        rows = [row | {"source": source_of(path.name, row)} for row in rows]
        rows = [row | {"validated": "no" if row.get("node_nm") in UNVALIDATED_NODES else "yes"} for row in rows]
        if path.name == "adc_resolution.csv":
            rows = [row | {"validated": "yes" if row["bits"] in ("5", "8") else "no"} for row in rows]
        write(path, rows)
        digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    lines = [f'version: "{VERSION}"', "sha256:", *(f"  {name}: {digest}" for name, digest in digests.items())]
    text = "# Written by scripts/regenerate.py --seal: version and content of the tables.\n" + "\n".join(lines) + "\n"
    (DATA / "manifest.yaml").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for the regenerated tables")
    parser.add_argument("--tables", default=",".join(TABLES), help="which, by commas")
    parser.add_argument("--limit", type=int, help="only every row at a constant step, this many at most")
    parser.add_argument("--seal", action="store_true", help="provenance columns and manifest of the shipped tables")
    options = parser.parse_args()
    if options.seal:
        seal()
    for name in options.tables.split(",") if options.out else ():
        file, make = TABLES[name]
        options.out.mkdir(parents=True, exist_ok=True)
        old = read(file)
        if options.limit:
            old = old[:: -(-len(old) // options.limit)]
        try:
            new = make(old)
        except ImportError as error:
            print(f"{file}: left out, {error}")
            continue
        write(options.out / file, new)
        print(f"{file}: {len(new)} rows")
        print("\n".join(differences(old, new)))


if __name__ == "__main__":
    main()
