"""A table of any length as lines: only the rows that are seen are ever written out. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from console.widgets.ink import Align, Line, clean, crop, fit, runs, width_of

_WIDEST: Final = 48
_SAMPLE: Final = 500
"""Rows whose values decide how wide a column is; longer values beyond them are cut."""
_TYPE: Final = 12
_FLOAT: Final = len("-1.23457e-300")
_GAP: Final = "  "
NULL: Final = "∅"


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column as it is shown: `width` cells, numbers to the right."""

    name: str
    type: str
    width: int
    align: Align


class Grid:
    """An Arrow table, row by row and column by column. A cell of any kind is a text; NULL has a glyph of its own."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.columns = tuple(_column(rows, place) for place in range(rows.num_columns))

    def __len__(self) -> int:
        count: int = self.rows.num_rows
        return count

    def gutter(self) -> int:
        """Cells of the row numbers at the left."""
        return len(f"{max(len(self), 1):,}") + 2

    def heads(self, first: int, width: int) -> list[Line]:
        """Names and types of the columns from `first` on."""
        shown = self._shown(first, width)
        blank = (" " * self.gutter(), "text")
        names: Line = [blank]
        types: Line = [blank]
        for column in shown:
            names.append((fit(clean(column.name), column.width, column.align) + _GAP, "strong bold"))
            types.append((fit(column.type, column.width, column.align) + _GAP, "faint aside"))
        return [crop(names, width), crop(types, width)]

    def lines(self, top: int, height: int, first: int, width: int, chosen: int | None = None) -> list[Line]:
        """`height` rows from `top` on, columns from `first` on; the `chosen` row is lit, and marked."""
        shown = self._shown(first, width)
        part = self.rows.slice(max(top, 0), max(height, 0))
        cells = [part.column(first + place).to_pylist() for place in range(len(shown))]
        return [
            self._line(top + row, [column[row] for column in cells], shown, width, lit=top + row == chosen)
            for row in range(part.num_rows)
        ]

    def _line(self, number: int, values: Sequence[Any], shown: Sequence[GridColumn], width: int, *, lit: bool) -> Line:
        ground = " on.cursor" if lit else ""
        mark = "▸" if lit else " "
        line: Line = [(f"{mark}{number + 1:>{self.gutter() - 2},} ", f"muted{ground}")]
        for value, column in zip(values, shown, strict=True):
            known = value is not None
            text = fit(cell(value), column.width, column.align) + _GAP
            line.append((text, f"{'text' if known else 'faint'}{ground}"))
        line.append((" " * max(width - width_of(line), 0), f"text{ground}"))
        return crop(runs(line), width)

    def _shown(self, first: int, width: int) -> list[GridColumn]:
        """The columns from `first` on that are seen at least in part."""
        room = width - self.gutter()
        shown = []
        for column in self.columns[first:]:
            if room <= 0:
                break
            shown.append(column)
            room -= column.width + len(_GAP)
        return shown


def cell(value: Any) -> str:  # noqa: ANN401  # whatever SQL gives
    """A value in one line of a table."""
    if value is None:
        return NULL
    return f"{value:.6g}" if isinstance(value, float) else clean(str(value))


def _column(rows: pa.Table, place: int) -> GridColumn:
    field, values = rows.schema.field(place), rows.column(place)
    sample = values.slice(0, _SAMPLE).to_pylist()
    if pa.types.is_integer(field.type):
        sample += pc.min_max(values).as_py().values()  # of a number nothing may be cut off
    is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
    texts = (clean(field.name), str(field.type)[:_TYPE], *(cell(value) for value in sample))
    width = max(width_of([(text, "")]) for text in texts)
    width = max(width, _FLOAT) if pa.types.is_floating(field.type) else width
    return GridColumn(field.name, str(field.type), min(width, _WIDEST), "right" if is_number else "left")
