"""Whole columns at once instead of row by row: for producers that know many rows together, such as simulations."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from recorder.records import to_arrow
from recorder.schema import Column, Table


def from_columns(table: Table, columns: Mapping[str, object], length: int) -> pa.Table:
    """Rows of `table.arrow`: arrays of integers, codes or floats with the wire's unknowns, or sequences of texts.

    One value stands for a column of equal ones; a missing column is NULL. Raises TypeError for a column unknown here.
    """
    unknown = columns.keys() - {column.name for column in table.columns}
    if unknown:
        raise TypeError(f"table {table.name} has no column {', '.join(sorted(unknown))}")
    arrays = [_array(table, column, columns.get(column.name), length) for column in table.columns]
    return pa.Table.from_arrays(arrays, schema=table.arrow)


def _array(table: Table, column: Column, values: object, length: int) -> pa.Array:
    if values is None:
        return pa.nulls(length, column.arrow)
    if isinstance(values, str):
        return pa.repeat(pa.scalar(values), length)
    if isinstance(column.kind, int):
        return pa.array(values, pa.string())
    whole = np.broadcast_to(np.asarray(values, np.dtype(column.numpy)), (length,))
    records = np.ascontiguousarray(whole).view([(column.name, column.numpy)])
    return to_arrow(table.only(column.name), records)[column.name].combine_chunks()
