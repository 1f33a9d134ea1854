"""What there is to ask about: tables, columns, types, units and what each is, from the schema and from the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from console.measures import MEASURES
from console.session import Session
from recorder.schema import TABLES, Column

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class ColumnDoc:
    """A column: `type` is DuckDB's, `unit` empty where it has none."""

    name: str
    type: str
    unit: str
    doc: str


@dataclass(frozen=True, slots=True)
class TableDoc:
    """A table or view, and what a row of it is."""

    name: str
    row: str
    columns: tuple[ColumnDoc, ...]


_VIEWS: Final[Mapping[str, str]] = {
    "latency": "one attempt of one request, with its measures",
    "causes": "some time of one attempt, by what it went into and through whom",
    "blames": "some time that one attempt lost through another request, and who that was in the end",
    "gaps": "one stretch in which records were lost",
    "phase_times": "one attempt, with its time in each phase",
    "cause_times": "one attempt, with its time in each cause and by each root",
    "attempt_times": "one attempt: its request, its measures, its time in each phase and cause",
}
"""Views that are made of the tables."""

_DOCS: Final[Mapping[str, tuple[str, str]]] = {
    **{measure.column: ("ns", measure.formula) for measure in MEASURES},
    "cause": ("", "what the time went into, such as PREFILL or QUEUE/KV_BLOCKS"),
    "root": ("", "what kept the one waiting who is waited for"),
    "ns": ("ns", "how long"),
    "measured": ("", "false where it is modelled"),
    "culprit": ("", "rid of the request that caused it"),
    "incomplete": ("", "lived while records were lost"),
    "since": ("ns", "no record before this is missing"),
    "until": ("ns", "no record after this is missing"),
}
"""Unit and words for columns that only views have."""


def tables(session: Session, cursor: "duckdb.DuckDBPyConnection") -> tuple[TableDoc, ...]:
    """Everything a question can be about in this run."""
    types = _types(session, cursor)
    recorded = tuple(
        TableDoc(table.name, table.row, tuple(_recorded(column, types[table.name]) for column in table.columns))
        for table in TABLES.values()
    )
    views = tuple(
        TableDoc(name, row, tuple(_of_view(column, type_, name) for column, type_ in types[name].items()))
        for name, row in _VIEWS.items()
        if name in types
    )
    return recorded + views


def _types(session: Session, cursor: "duckdb.DuckDBPyConnection") -> dict[str, dict[str, str]]:
    """Table -> column -> type. Causes are worked out when somebody asks for them; their view is there before."""
    answer = session.query(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY column_index",
        cursor=cursor,
    )
    types: dict[str, dict[str, str]] = {}
    for row in answer.to_pylist():
        types.setdefault(row["table_name"], {})[row["column_name"]] = row["data_type"]
    return types


def _recorded(column: Column, types: Mapping[str, str]) -> ColumnDoc:
    words = f" ({', '.join(column.words)})" if column.words else ""
    return ColumnDoc(column.name, types[column.name], column.unit, column.doc + words)


def _of_view(name: str, type_: str, view: str) -> ColumnDoc:
    requests = {column.name: column for column in TABLES["requests"].columns}
    if name in _DOCS:
        return ColumnDoc(name, type_, *_DOCS[name])
    if name in requests:
        return ColumnDoc(name, type_, requests[name].unit, requests[name].doc)
    return ColumnDoc(name, type_, "ns" if view.endswith("_times") else "", "")
