"""Many small parts into few large ones, without an instant at which a reader sees a row twice or not at all."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from recorder.left_out import LEDGER, LeftOut
from recorder.parts import ROW_GROUP, Part, all_parts, inspect, outermost, read_numbered, write_part
from recorder.schema import TABLES, Table

_CHUNK_ROWS: Final = 8 * ROW_GROUP
_SMALL: Final = ROW_GROUP
_MANY: Final = 32
_NOTHING: Final = LeftOut()


def merge(table: Table, parts: Sequence[Part], left_out: LeftOut = _NOTHING) -> Part:
    """Seal adjacent sound parts of one producer as one. The old ones stay: readers ignore what a part contains.

    Rows of passes that were left out are not in it, though its name covers them: nobody looks for them elsewhere.
    """
    first, last = parts[0], parts[-1]
    merged = Part.of(first.path.parent, first.producer, first.first, last.last)
    write_part(table, merged, _gathered(table, parts, left_out))
    return merged


def _gathered(table: Table, parts: Sequence[Part], left_out: LeftOut) -> Iterator[pa.Table]:
    """Rows of many small parts in chunks worth sorting together, so that memory stays bounded."""
    waiting: list[pa.Table] = []
    for part in parts:
        waiting.append(left_out.without(table.name, read_numbered(table, part)))
        if sum(rows.num_rows for rows in waiting) >= _CHUNK_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def small_tail(parts: Sequence[Part], many: int = _MANY) -> list[Part]:
    """The last parts of a producer when they are many and small enough to be merged while the run goes on."""
    tail: list[Part] = []
    for part in reversed(parts):
        if part.last - part.first >= _SMALL:
            break
        tail.insert(0, part)
    return tail if len(tail) >= many else []


def mergeable(parts: Iterable[Part]) -> list[list[Part]]:
    """Stretches of adjacent sound parts of one producer. A damaged part stays apart, so that it can be named."""
    stretches: list[list[Part]] = [[]]
    for part in outermost(part for part in parts if not inspect(part).damage):
        previous = stretches[-1][-1] if stretches[-1] else None
        if previous and (previous.producer, previous.last) != (part.producer, part.first):
            stretches.append([])
        stretches[-1].append(part)
    return stretches


def merge_table(run: Path, name: str, left_out: LeftOut = _NOTHING) -> None:
    """Merge each stretch of a table's parts into one, then delete what the new parts contain. Raises OSError.

    Where passes were left out, a single part is written anew, too: it may be older than the verdict.
    """
    for stretch in mergeable(all_parts(run, name)):
        if len(stretch) > 1 or (stretch and left_out and name in LEDGER):
            merge(TABLES[name], stretch, left_out)
    for part in superfluous(all_parts(run, name)):
        part.path.unlink()


def superfluous(parts: Sequence[Part]) -> list[Part]:
    """Parts that another, sound one contains."""
    kept = outermost(part for part in parts if not inspect(part).damage)
    return [part for part in parts if any(other != part and other.holds(part) for other in kept)]
