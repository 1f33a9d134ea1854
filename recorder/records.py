"""Records and rows: what a value looks like on the wire, and how whole arrays of records become Arrow tables."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recorder.schema import NONE, Column, Table, code

NO_WORD: Final = 255
"""The wire value of a coded word that is not known; NULL in Parquet."""

SEQ: Final = "_seq"
"""The column of a part that holds the numbers of its records. Readers of a table's rows do not see it."""

Records = npt.NDArray[np.void]


def cut(text: str, width: int) -> bytes:
    """UTF-8 of at most `width` bytes, cut between characters."""
    raw = text.encode("utf-8", "replace")
    return raw if len(raw) <= width else raw[:width].decode("utf-8", "ignore").encode()


def wire_values(table: Table, columns: Mapping[str, object]) -> list[object]:
    """The values of one row in declared order. A missing column or None is unknown; text is cut at its width.

    Raises TypeError for a column that the table does not have.
    """
    unknown = columns.keys() - {column.name for column in table.columns}
    if unknown:
        raise TypeError(f"table {table.name} has no column {', '.join(sorted(unknown))}")
    return [_wire_value(column, columns.get(column.name)) for column in table.columns]


def _wire_value(column: Column, value: object) -> object:
    if isinstance(column.kind, int):
        return value if isinstance(value, bytes) else cut(str(value or ""), column.kind)
    if value is None:
        return NO_WORD if column.words else float("nan") if column.kind is float else NONE
    return code(_word(column, value)) if column.words and isinstance(value, str) else value


def _word(column: Column, value: str) -> StrEnum:
    return cast(type[StrEnum], column.kind)(value)


def to_arrow(table: Table, records: Records) -> pa.Table:
    """Rows of `table.arrow`, in the order of the records. NONE, NO_WORD and NaN become NULL, as does what they lack."""
    arrays = [_column_array(column, records) for column in table.columns]
    return pa.Table.from_arrays(arrays, schema=table.arrow)


def numbered(table: Table, records: Records) -> pa.Table:
    """The same rows with the numbers of their records in a last column."""
    return to_arrow(table, records).append_column(SEQ, pa.array(records[SEQ].astype(np.int64)))


def _column_array(column: Column, records: Records) -> pa.Array:
    if column.name not in (records.dtype.names or ()):
        return pa.nulls(len(records), column.arrow)
    return _to_array(column, np.ascontiguousarray(records[column.name]))


def _to_array(column: Column, values: npt.NDArray[Any]) -> pa.Array:
    if isinstance(column.kind, int):
        return pa.array([raw.decode("utf-8", "ignore") for raw in values.tolist()], pa.string())
    if column.words:
        return _words_array(column, values)
    unknown = np.isnan(values) if column.kind is float else values == NONE
    return pa.array(values, column.arrow, mask=unknown)


def _words_array(column: Column, codes: npt.NDArray[Any]) -> pa.Array:
    unknown = codes >= len(column.words)
    indices = pa.array(np.where(unknown, 0, codes).astype(np.int8), pa.int8(), mask=unknown)
    return pa.DictionaryArray.from_arrays(indices, pa.array(column.words, pa.string()))


def conform(table: Table, rows: pa.Table) -> pa.Table:
    """The same rows with exactly the columns and types of `table.arrow`; what an older part lacks is NULL."""
    arrays = [_conform_column(column, rows) for column in table.columns]
    return pa.Table.from_arrays(arrays, schema=table.arrow)


def _conform_column(column: Column, rows: pa.Table) -> pa.Array:
    if column.name not in rows.column_names:
        return pa.nulls(rows.num_rows, column.arrow)
    if not column.words:
        return rows[column.name].cast(column.arrow)
    words = pa.array(column.words, pa.string())
    indices = pc.index_in(rows[column.name].cast(pa.string()), value_set=words).cast(pa.int8())
    return pa.DictionaryArray.from_arrays(indices.combine_chunks(), words)


def in_order(table: Table, rows: pa.Table) -> pa.Table:
    """Sorted by the table's `order` column; rows of the same instant keep their order."""
    keys = rows[table.order].to_numpy()
    if keys.dtype.kind == "i" and bool(np.all(keys[1:] >= keys[:-1])):
        return rows  # as most producers write them: looking is much cheaper than sorting
    return rows.take(pc.sort_indices(rows, [(table.order, "ascending")]))
