"""Rows whose every column follows from their number, so that a reader can tell an altered row from a true one."""

from pathlib import Path

import pyarrow as pa

from recorder.parts import read_part
from recorder.producer import Producer
from recorder.run import RunInfo, create_run
from recorder.schema import SLICES
from recorder.tables import RunTables
from tests.recorder.processes import new_name


def slice_values(number: int) -> tuple[int, ...]:
    """The columns of slice `number`, in declared order; each step has three slices."""
    return (number // 3, number % 2, number, number % 3, 1 + number % 16, number * 7, number % 5, number % 4)


def append_slices(producer: Producer, numbers: range) -> None:
    """Append them all; none may be dropped."""
    for number in numbers:
        assert producer.append("slices", *slice_values(number))


def expected_slices(numbers: list[int]) -> pa.Table:
    """What a reader must show for these numbers."""
    columns = list(zip(*(slice_values(number) for number in numbers), strict=True)) or [()] * len(SLICES.columns)
    words = SLICES.columns[3].words
    arrays = [
        pa.array([words[code] for code in column]).cast(field.type) if pa.types.is_dictionary(field.type) else column
        for column, field in zip(columns, SLICES.arrow, strict=True)
    ]
    return pa.table(dict(zip(SLICES.arrow.names, arrays, strict=True)), schema=SLICES.arrow)


def shown(tables: RunTables) -> list[int]:
    """Numbers of the slices a reader sees, in order; fails if any column of any of them is not as it was written."""
    rows = pa.concat_tables([tables.tail("slices"), *_parts(tables)]).sort_by("rid")
    numbers: list[int] = rows["rid"].to_pylist()
    assert rows.to_pylist() == expected_slices(numbers).to_pylist()
    return numbers


def _parts(tables: RunTables) -> list[pa.Table]:
    return [read_part(SLICES, path) for path in tables.part_files("slices")]


def new_run(folder: Path, **record: float) -> Path:
    """An empty run; keywords are its `[record]` settings."""
    return create_run(folder, RunInfo(run_id=new_name(), config={"record": record}))
