"""One question in SQL and what came of it: rows, at most so many, or what DuckDB says is wrong, and where."""

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from console.database import QueryError, check_reads_only
from console.filter import Filter
from console.session import Session

if TYPE_CHECKING:
    import duckdb

MOST_ROWS: Final = 1_000_000
"""Rows that are fetched for a screen; one more is asked for, so that a cut answer says that it is cut."""

_LINE: Final = re.compile(r"LINE (\d+): (.*)\n(\s*)\^")
_CUT: Final = "..."
_QUOTED: Final = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class Answer:
    """`rows` of `sql` under `only`; `cut` where there are more than were fetched. `took_ns` until they were here."""

    sql: str
    only: Filter
    rows: pa.Table
    cut: bool
    took_ns: int


@dataclass(frozen=True)
class Refusal:
    """What is wrong with `sql`, in DuckDB's words; `place` is the line and column in it (from 0), where known."""

    sql: str
    said: str
    place: tuple[int, int] | None


def ask(
    session: Session, only: Filter, sql: str, cursor: "duckdb.DuckDBPyConnection", most: int = MOST_ROWS
) -> Answer | Refusal:
    """The answer to SQL that somebody typed. The fresh `cursor` is put under the filter, and can be interrupted."""
    begun = time.monotonic_ns()
    try:
        found = rows_of(session, only, sql, cursor, most + 1)
    except QueryError as error:
        return Refusal(sql, str(error), place_of(str(error), sql))
    rows = found.slice(0, most).combine_chunks()
    return Answer(sql, only, rows, found.num_rows > most, time.monotonic_ns() - begun)


def rows_of(
    session: Session, only: Filter, sql: str, cursor: "duckdb.DuckDBPyConnection", up_to: int | None
) -> pa.Table:
    """The rows, `up_to` so many, of what the filter lets through, causes included. Raises QueryError."""
    check_reads_only(sql)
    session.narrow(cursor, only, causes="causes" in sql.lower())
    return session.user_query(sql, cursor=cursor, up_to=up_to)


def place_of(said: str, sql: str) -> tuple[int, int] | None:
    """Where in `sql` DuckDB points to: its caret under a line, else the only place of the name that it quotes."""
    match = _LINE.search(said)
    if match is None:
        return _only_place(_QUOTED.search(said), sql)
    number, quoted = int(match[1]) - 1, match[2]
    lines = sql.split("\n")
    if not 0 <= number < len(lines):
        return None
    column = len(match[3]) - len(f"LINE {match[1]}: ")
    inner = quoted.removeprefix(_CUT).removesuffix(_CUT)
    # A long line is quoted in part: its dots are not in what was typed.
    start = max(lines[number].find(inner), 0)
    column += start - (len(_CUT) if quoted.startswith(_CUT) else 0)
    return number, min(max(column, 0), len(lines[number]))


def _only_place(name: re.Match[str] | None, sql: str) -> tuple[int, int] | None:
    if name is None or sql.count(name[1]) != 1:
        return None
    before = sql[: sql.index(name[1])]
    return before.count("\n"), len(before) - (before.rfind("\n") + 1)
