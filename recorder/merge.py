"""Many small parts into few large ones, without an instant at which a reader sees a row twice or not at all."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from recorder.parts import ROW_GROUP, Part, all_parts, inspect, outermost, read_numbered, write_part
from recorder.schema import TABLES, Table

_CHUNK_ROWS: Final = 8 * ROW_GROUP
_SMALL: Final = ROW_GROUP
_MANY: Final = 32


def merge(table: Table, parts: Sequence[Part]) -> Part:
    """Seal adjacent sound parts of one producer as one. The old ones stay: readers ignore what a part contains."""
    first, last = parts[0], parts[-1]
    merged = Part.of(first.path.parent, first.producer, first.first, last.last)
    write_part(table, merged, _gathered(table, parts))
    return merged


def _gathered(table: Table, parts: Sequence[Part]) -> Iterator[pa.Table]:
    """Rows of many small parts in chunks worth sorting together, so that memory stays bounded."""
    waiting: list[pa.Table] = []
    for part in parts:
        waiting.append(read_numbered(table, part))
        if sum(rows.num_rows for rows in waiting) >= _CHUNK_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def small_tail(parts: Sequence[Part]) -> list[Part]:
    """The last parts of a producer when they are many and small enough to be merged while the run goes on."""
    tail: list[Part] = []
    for part in reversed(parts):
        if part.last - part.first >= _SMALL:
            break
        tail.insert(0, part)
    return tail if len(tail) >= _MANY else []


def mergeable(parts: Iterable[Part]) -> list[list[Part]]:
    """Stretches of adjacent sound parts of one producer. A damaged part stays apart, so that it can be named."""
    stretches: list[list[Part]] = [[]]
    for part in outermost(part for part in parts if not inspect(part).damage):
        previous = stretches[-1][-1] if stretches[-1] else None
        if previous and (previous.producer, previous.last) != (part.producer, part.first):
            stretches.append([])
        stretches[-1].append(part)
    return stretches


def merge_table(run: Path, name: str) -> None:
    """Merge each stretch of a table's parts into one, then delete what the new parts contain. Raises OSError."""
    for stretch in mergeable(all_parts(run, name)):
        if len(stretch) > 1:
            merge(TABLES[name], stretch)
    for part in superfluous(all_parts(run, name)):
        part.path.unlink()


def superfluous(parts: Sequence[Part]) -> list[Part]:
    """Parts that another, sound one contains."""
    kept = outermost(part for part in parts if not inspect(part).damage)
    return [part for part in parts if any(other != part and other.holds(part) for other in kept)]
