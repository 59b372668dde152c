"""Exact lookup of rows of a table by several integer keys; what is absent is an error that says what exists."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from cimopt.errors import InputError

# Voltages are keys too: held as whole millivolts, so 0.1 + 0.2 finds 0.3.
_MILLI = 1000
_ROUNDING = 1e-6
# Provenance columns, read by people and by scripts/regenerate.py.
TEXT_COLUMNS = ("source", "validated")


@cache
def load(name: str) -> Mapping[str, np.ndarray]:
    """Columns of a shipped data file, each float64 ``(rows,)``, read on first use; texts are left out."""
    with (files("cimopt_components") / "data" / name).open(encoding="utf-8") as file:
        header = file.readline().strip().split(",")
        numeric = [i for i, column in enumerate(header) if column not in TEXT_COLUMNS]
        header = [header[i] for i in numeric]
        columns = np.loadtxt(file, delimiter=",", unpack=True, ndmin=2, usecols=numeric)
    columns.setflags(write=False)
    return dict(zip(header, columns, strict=True))


def _whole(name: str, values: np.ndarray) -> np.ndarray:
    """Key values as integers (voltage in mV); a value that is not one becomes -1, which no table has."""
    values = np.asarray(values, dtype=np.float64) * (_MILLI if name == "v_op" else 1)
    rounded = np.rint(values)
    return np.where(np.abs(values - rounded) < _ROUNDING, rounded, -1).astype(np.int64)


@dataclass(frozen=True)
class Places:
    """Where values are taken: rows ``(c, m)`` of a table and their weights ``(c, m)``; c is 1 at listed points."""

    rows: np.ndarray
    weights: np.ndarray | None = None

    def take(self, column: np.ndarray) -> np.ndarray:
        """Values ``(m,)`` of one column."""
        if self.weights is None:
            return column[self.rows[0]]
        return (column[self.rows] * self.weights).sum(axis=0)


class Index:
    """Rows of one table by its key columns."""

    def __init__(self, table: str, columns: Mapping[str, np.ndarray], keys: Sequence[str]) -> None:
        self.table = table
        self.keys = tuple(keys)
        self._known = {key: _whole(key, columns[key]) for key in keys}
        self._choices = {key: np.unique(known) for key, known in self._known.items()}
        self._row = np.full([len(c) for c in self._choices.values()], -1, dtype=np.int64)
        at = tuple(np.searchsorted(self._choices[key], self._known[key]) for key in keys)
        self._row[at] = np.arange(len(at[0]))

    def rows(self, **values: np.ndarray) -> np.ndarray:
        """Row numbers ``(m,)`` for key arrays ``(m,)``; raises `InputError` for the first that is absent."""
        whole = {key: _whole(key, values[key]) for key in self.keys}
        at, absent = [], np.zeros(np.broadcast_shapes(*(w.shape for w in whole.values())), dtype=bool)
        for key in self.keys:
            choices = self._choices[key]
            place = np.minimum(np.searchsorted(choices, whole[key]), len(choices) - 1)
            absent |= choices[place] != whole[key]
            at.append(place)
        rows = self._row[tuple(at)]
        absent |= rows < 0
        if absent.any():
            self._refuse(values, whole, int(np.flatnonzero(absent)[0]))
        return rows

    def places(self, interpolate: bool, **values: np.ndarray) -> Places:
        """As :meth:`rows`; with ``interpolate``, points between listed ones are weighed sums of their neighbours."""
        if not interpolate:
            return Places(self.rows(**values)[None, :])
        low, share = zip(*(self._bracket(key, np.asarray(values[key], float)) for key in self.keys), strict=True)
        rows, weights = [], []
        for corner in itertools.product((0, 1), repeat=len(self.keys)):
            weight = np.prod([s if up else 1 - s for up, s in zip(corner, share, strict=True)], axis=0)
            at = tuple(
                np.minimum(place + up, len(self._choices[key]) - 1)
                for key, place, up in zip(self.keys, low, corner, strict=True)
            )
            row = self._row[at]
            if ((row < 0) & (weight > 0)).any():
                self.rows(**values)  # a neighbour is absent: say what exists
            rows.append(np.maximum(row, 0))
            weights.append(weight)
        return Places(np.stack(rows), np.stack(weights))

    def _bracket(self, key: str, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Place of the listed choice below each value and the share of the next one, both ``(m,)``."""
        choices = self._choices[key] / (_MILLI if key == "v_op" else 1)
        outside = (values < choices[0] - _ROUNDING) | (values > choices[-1] + _ROUNDING)
        if outside.any():
            known = f"{choices[0]:g}..{choices[-1]:g}"
            raise InputError(f"{key}={values[outside][0]:g} is outside the {self.table} table (it has: {known})")
        low = np.clip(np.searchsorted(choices, values + _ROUNDING, side="right") - 1, 0, len(choices) - 1)
        high = np.minimum(low + 1, len(choices) - 1)
        scale = (lambda x: x) if key == "v_op" else np.log2
        span = scale(choices[high]) - scale(choices[low])
        share = np.where(span > 0, (scale(values) - scale(choices[low])) / np.where(span > 0, span, 1), 0.0)
        return low, np.where(np.abs(share) < _ROUNDING, 0.0, share)

    def _refuse(self, values: Mapping[str, np.ndarray], whole: Mapping[str, np.ndarray], i: int) -> None:
        """Name the first key without a match, given the keys before it, and what the table has there."""
        match = np.ones(len(self._known[self.keys[0]]), dtype=bool)
        given: list[str] = []
        for key in self.keys:
            here = match & (self._known[key] == np.broadcast_to(whole[key], np.shape(values[key]))[i])
            value = np.asarray(values[key])[i].item()
            if not here.any():
                exist = np.unique(self._known[key][match]) / (_MILLI if key == "v_op" else 1)
                where = f" at {', '.join(given)}" if given else ""
                known = ", ".join(f"{v:g}" for v in exist)
                raise InputError(f"{key}={value:g} is not in the {self.table} table{where} (it has: {known})")
            given.append(f"{key}={value:g}")
            match = here
