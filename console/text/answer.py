"""An answer of SQL written out: as a table to read, or as CSV, JSON or Parquet for other programs."""

import io
import json
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from console.jsonout import finite
from console.widgets.ink import Align, clean, fit, width_of
from recorder.errors import UserError

FORMATS: Final = ("table", "csv", "json", "parquet")

_WIDEST: Final = 60
"""Cells of a column in a table; the other formats cut nothing."""


def write_answer(answer: pa.Table, form: str, out: Path | None) -> None:
    """Write the whole answer to a file or to stdout. Raises `UserError` where the file can't be written."""
    if out is None:
        sys.stdout.flush()
        _write(answer, form, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        with out.open("wb") as file:
            _write(answer, form, file)
    except OSError as error:
        raise UserError(f"can't write {out}: {error.strerror}") from error


def table_text(answer: pa.Table) -> str:
    """A header, a rule and one line a row; numbers to the right. NULL is empty, and the row count comes last."""
    columns = [_column(answer.column(i).to_pylist(), answer.field(i)) for i in range(answer.num_columns)]
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    rows = f"({answer.num_rows:,} row{'' if answer.num_rows == 1 else 's'})"
    return "\n".join([*lines, rows]) + "\n"


def _write(answer: pa.Table, form: str, out: BinaryIO) -> None:
    if form == "parquet":
        # Parquet needs the place of its footer, which a pipe does not tell: make it whole first.
        whole = io.BytesIO()
        pyarrow.parquet.write_table(answer, whole, compression="zstd")
        out.write(whole.getbuffer())
    elif form == "csv":
        pyarrow.csv.write_csv(_flat(answer), out)
    elif form == "json":
        out.write(f"{json.dumps(finite(answer.to_pylist()), indent=1, allow_nan=False, default=str)}\n".encode())
    else:
        out.write(table_text(answer).encode())


def _column(values: list[Any], field: pa.Field) -> list[str]:
    """The cells of one column, all of one width: its name, a rule, its values."""
    is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    align: Align = "right" if is_number else "left"
    cells = [_cell(value) for value in values]
    name = clean(field.name)
    width = min(max(width_of([(text, "")]) for text in (name, *cells)), _WIDEST)
    return [fit(name, width, align), "─" * width, *(fit(cell, width, align) for cell in cells)]


def _cell(value: Any) -> str:  # noqa: ANN401  # whatever SQL gives
    return "" if value is None else clean(str(value))


def _flat(answer: pa.Table) -> pa.Table:
    """CSV has no nested values: lists and structs become JSON."""
    for place, field in enumerate(answer.schema):
        if pa.types.is_nested(field.type):
            texts = [_json_or_none(value) for value in answer.column(place).to_pylist()]
            answer = answer.set_column(place, field.name, pa.array(texts, pa.string()))
    return answer


def _json_or_none(value: Any) -> str | None:  # noqa: ANN401  # whatever SQL gives
    return None if value is None else json.dumps(finite(value), default=str)
