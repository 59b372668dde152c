"""Tables of designs: read CSV or Parquet, turn columns into designs, write results.

Values need not be choices of the space: whatever the evaluator's tables hold is accepted, so the
parameters' choices are simply the values that occur.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.errors import InputError
from cimopt.space import SearchSpace
from cimopt.types import Designs, Parameter, ParameterSet, Value

FORMATS = (".csv", ".parquet")


@dataclass(frozen=True)
class DesignTable:
    """`designs` (n) as the evaluator sees them, `carried` the file's columns as given, `in_space` bool (n,)."""

    designs: Designs
    carried: Mapping[str, list[Any]]
    in_space: np.ndarray
    ignored: tuple[str, ...] = ()


def read_columns(path: Path) -> dict[str, list[Any]]:
    """Columns of a CSV or Parquet file. Raises InputError naming the file and what is wrong."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    _check_format("designs", path)
    if not path.exists():
        raise InputError(f"designs={path} does not exist")
    try:
        table = pa.csv.read_csv(path) if path.suffix == ".csv" else pa.parquet.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"designs={path} cannot be read: {' '.join(str(error).split())}") from error
    names = [name.strip() for name in table.column_names]
    if len(set(names)) != len(names):
        raise InputError(f"designs={path} names a column twice: {', '.join(names)}")
    if table.num_rows == 0:
        raise InputError(f"designs={path} holds no rows")
    return dict(zip(names, (column.to_pylist() for column in table.columns), strict=True))


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write CSV or Parquet by the file's ending; None and NaN become empty cells."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    _check_format("out", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: _arrow(values) for name, values in columns.items()})
    temporary = path.with_name(path.name + ".tmp")
    if path.suffix == ".csv":
        pa.csv.write_csv(table, temporary)
    else:
        pa.parquet.write_table(table, temporary)
    temporary.replace(path)


def _arrow(values: Sequence[Any]) -> Any:
    import pyarrow as pa

    array = np.asarray(values) if not isinstance(values, list) else None
    if array is not None and array.dtype.kind == "f":
        return pa.array(array, mask=~np.isfinite(array))
    return pa.array(values)


def _check_format(key: str, path: Path) -> None:
    if path.suffix not in FORMATS:
        raise InputError(f"{key}={path} must end in {' or '.join(FORMATS)}")


def design_table(columns: Mapping[str, list[Any]], space: SearchSpace, needed: Sequence[str]) -> DesignTable:
    """Designs from columns named as the parameters.

    The space supplies fixed parameters; a column for one must agree with it. `needed` are the
    evaluators' parameters. Raises InputError naming the column, row and value.
    """
    n = len(next(iter(columns.values())))
    wanted = dict.fromkeys([*space.names, *needed])
    missing = [name for name in wanted if name not in columns and name not in space.parameters.fixed]
    if missing:
        raise InputError(f"the designs lack the column(s) {', '.join(missing)} (given: {', '.join(columns)})")
    _check_fixed(columns, space)
    used = [name for name in wanted if name not in space.parameters.fixed]
    parameters, genes = [], np.zeros((n, len(used)), dtype=np.int64)
    for k, name in enumerate(used):
        values = _checked(name, columns[name])
        choices = tuple(sorted(set(values), key=lambda v: (isinstance(v, str), v)))
        index = {value: i for i, value in enumerate(choices)}
        genes[:, k] = [index[v] for v in values]
        parameters.append(Parameter(name, choices))
    designs = Designs(ParameterSet(tuple(parameters), dict(space.parameters.fixed)), genes)
    ignored = tuple(name for name in columns if name not in wanted and name not in space.parameters.fixed)
    return DesignTable(designs, columns, _in_space(designs, space), ignored)


def _check_fixed(columns: Mapping[str, list[Any]], space: SearchSpace) -> None:
    for name, fixed in space.parameters.fixed.items():
        for row, value in enumerate(columns.get(name, ()), 1):
            if not _equal(value, fixed):
                raise InputError(
                    f"row {row}: {name}={value} contradicts space '{space.name}', where it is fixed to {fixed}"
                )


def _equal(value: Any, fixed: Value) -> bool:
    if isinstance(fixed, str) or isinstance(value, str):
        return str(value).strip().lower() == str(fixed).lower()
    return value is not None and bool(np.isclose(float(value), float(fixed), rtol=1e-9))


def _checked(name: str, values: list[Any]) -> list[Value]:
    """Whole-number floats as integers, so that 256.0 and 256 are one choice."""
    checked: list[Value] = []
    for row, value in enumerate(values, 1):
        if value is None or (isinstance(value, float) and not np.isfinite(value)):
            raise InputError(f"row {row}: {name} is empty")
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise InputError(f"row {row}: {name}={value!r} must be a number or a word")
        checked.append(int(value) if isinstance(value, float) and value.is_integer() else value)
    if len({isinstance(v, str) for v in checked}) > 1:
        raise InputError(f"column {name} mixes words and numbers")
    return checked


def _in_space(designs: Designs, space: SearchSpace) -> np.ndarray:
    inside = np.zeros(len(designs), dtype=bool)
    for i, row in enumerate(designs.rows()):
        try:
            genes = space.encode({name: row[name] for name in space.names})
        except InputError:
            continue
        inside[i] = bool(space.valid(genes[None, :])[0])
    return inside
