"""How many requests on each side have each value of each attribute: SQL in, counts out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from console.contrast.attributes import ATTRIBUTES, Attribute, part
from console.session import Session
from console.significance import Counts

if TYPE_CHECKING:
    import duckdb

MOST: Final = 50_000
"""So many on a side are compared at most: an effect then is sure to 0.01, and a million requests are as quick."""

_CHOSEN: Final = f"""CREATE OR REPLACE TEMP TABLE chosen AS
WITH compared AS (
    SELECT rid, attempt, true AS inside FROM selected
    UNION ALL
    SELECT rid, attempt, false FROM others ANTI JOIN selected USING (rid, attempt)
),
sizes AS (SELECT inside, count(*) AS n FROM compared GROUP BY inside)
SELECT rid, attempt, inside, n
FROM compared JOIN sizes USING (inside)
WHERE n <= {MOST} OR hash(rid, attempt) % (n // {MOST} + 1) = 0"""
"""Whoever is left out is left out by chance, and always: not every so-manieth, which traffic may be too."""

QUICK: Final = ("contrast_words", "contrast_numbers")
SLOW: Final = ("contrast_parts", "contrast_blame", "contrast_neighbours")
"""Questions that read causes, spans or slices."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One attribute: its values, and how many inside and outside have each.

    Values are whole numbers in ascending order, or words (None: all the rare ones together).
    """

    attribute: Attribute
    values: Sequence[int] | Sequence[str | None]
    inside: Counts
    outside: Counts

    @property
    def is_numeric(self) -> bool:
        """Whether the values have an order."""
        return bool(len(self.values)) and isinstance(self.values[0], int)


def choose(cursor: "duckdb.DuckDBPyConnection", selected: pa.Table, others: pa.Table) -> None:
    """Make the table `chosen` of two of `rid, attempt`; who is in both is inside. `n` is how many its side has."""
    cursor.register("selected", selected)
    cursor.register("others", others)
    cursor.execute(_CHOSEN).fetchall()


def read_samples(session: Session, cursor: "duckdb.DuckDBPyConnection", questions: Iterable[str]) -> Iterator[Sample]:
    """The samples that these questions answer, of the attempts that were chosen."""
    for name in questions:
        found = session.ask(name, cursor=cursor)
        yield from _parts(found) if name == "contrast_parts" else _named(found)


def _named(found: pa.Table) -> Iterator[Sample]:
    """From rows `attribute, value or word, inside, outside`, sorted."""
    column = "value" if "value" in found.column_names else "word"
    for name, group in groupby(found.to_pylist(), key=lambda row: row["attribute"]):
        rows = list(group)
        yield Sample(ATTRIBUTES[name], [row[column] for row in rows], *_counts(rows))


def _parts(found: pa.Table) -> Iterator[Sample]:
    """From rows `kind, name, unit, value, inside, outside`: whoever is in no row of a part has none of it."""
    by_part = groupby(found.to_pylist(), key=lambda row: (row["kind"], row["name"], row["unit"]))
    groups = {key: list(group) for key, group in by_part}
    everybody = groups.pop(("compared", "", ""), [])
    if not everybody:
        return
    all_inside, all_outside = (int(counts.sum()) for counts in _counts(everybody))
    for (kind, name, unit), rows in groups.items():
        inside, outside = _counts(rows)
        without = {"value": 0, "inside": all_inside - inside.sum(), "outside": all_outside - outside.sum()}
        merged = _with(rows, without)
        yield Sample(part(kind, name, unit), [row["value"] for row in merged], *_counts(merged))


def _with(rows: list[dict[str, int]], more: Mapping[str, int]) -> list[dict[str, int]]:
    """Rows in the order of their values, one more counted among them."""
    same = next((row for row in rows if row["value"] == more["value"]), {"inside": 0, "outside": 0})
    added = {**more, "inside": more["inside"] + same["inside"], "outside": more["outside"] + same["outside"]}
    return sorted([*(row for row in rows if row["value"] != more["value"]), added], key=lambda row: row["value"])


def _counts(rows: Sequence[Mapping[str, int]]) -> tuple[Counts, Counts]:
    inside, outside = (np.array([row[side] for row in rows], dtype=np.int64) for side in ("inside", "outside"))
    return inside, outside
