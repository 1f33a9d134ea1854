"""Checks: does the ledger of a run add up? Redundant columns are compared, as sums alone miss lost rows (DESIGN 5).

A run need not fit into memory: what tells of single passes and phases goes into a database beside it a row group at a
time, of causes only what the rules ask for of an attempt, and DuckDB spills what it can't hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import duckdb
import numpy as np
import pyarrow as pa

from recorder.attribution import SCHEMA, Tables
from recorder.attribution.attribute import attribute_in_turn
from recorder.attribution.columns import first_known, ints
from recorder.attribution.reading import Needed, SlicesOfParts
from recorder.attribution.slices import Slices, Whole
from recorder.check_rules import (
    ATTEMPTS_END_ONCE,
    CAUSES_SUM,
    OF_CAUSES,
    PASSES_TILE,
    PREPARED,
    RULES,
    STAMPS_MATCH_STEPS,
    TOKENS_ADD_UP,
    Rule,
)
from recorder.losses import Damage
from recorder.run import RunInfo
from recorder.schema import TABLES
from recorder.tables import RunTables
from recorder.windows import FOR_EVER

MOST_ROWS: Final = 20
"""Offending rows that a check shows; its detail counts them all."""


_MANY: Final = frozenset({"slices", "spans"})
"""The tables that hold most of a run."""
_AT_ONCE: Final = 1_000_000
"""Slices in memory at once."""
_MEMORY: Final = "1GB"


@dataclass(frozen=True)
class Check:
    """What one check found. `rows` are the first rows that break its rule."""

    name: str
    ok: bool
    detail: str
    rows: list[dict[str, Any]] = field(default_factory=list)


class CheckedTables(Tables, Protocol):
    """What checks ask of a run (`recorder.tables.RunTables`)."""

    @property
    def info(self) -> RunInfo:
        """Its `run.json`."""
        ...

    @property
    def damages(self) -> Sequence[Damage]:
        """Files that can't be trusted."""
        ...

    @property
    def drops(self) -> Mapping[tuple[str, str], int]:
        """(producer, table) -> records dropped."""
        ...


def check(tables: CheckedTables) -> list[Check]:
    """All checks of a run, also of one that was killed: they apply to what is complete, and open attempts are told."""
    with _database() as db:
        for name in TABLES:
            if name in _MANY and isinstance(tables, RunTables):
                _store(db, name, tables.some_at_a_time(name))
            else:
                db.register(name, tables.table(name))
        _store_causes(db, tables)
        db.register("left_out", tables.left_out.table())
        db.register("partly_kept", _partly_kept(tables))
        db.execute(PREPARED.replace("$sealed", str(tables.info.state == "sealed")))
        found = [_not_recorded(rule, tables.info) or _apply(db, rule) for rule in RULES]
    return [_files_intact(tables.damages), _nothing_dropped(tables.drops), *found]


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty one that goes when it is closed."""
    with (
        TemporaryDirectory(prefix="tailtrace-check-") as folder,
        duckdb.connect(str(Path(folder) / "check.duckdb"), config={"threads": 2, "memory_limit": _MEMORY}) as db,
    ):
        yield db


def _store(db: duckdb.DuckDBPyConnection, name: str, chunks: Iterator[pa.Table], asked: str = "FROM arriving") -> None:
    """A table of what is asked of each of the chunks; there is at least one."""
    for number, chunk in enumerate(chunks):
        db.register("arriving", chunk)
        db.execute(f"INSERT INTO {name} {asked}" if number else f"CREATE TABLE {name} AS {asked}").fetchall()
        db.unregister("arriving")


def _store_causes(db: duckdb.DuckDBPyConnection, tables: CheckedTables) -> None:
    """One row an attempt."""
    if isinstance(tables, RunTables):
        found = attribute_in_turn(Needed(tables), SlicesOfParts(tables), _AT_ONCE)
    else:
        found = attribute_in_turn(tables, Whole(Slices.read(tables.table("slices"))), _AT_ONCE)
    _store(db, "causes", chain([SCHEMA.empty_table()], (causes for _, causes in found)), OF_CAUSES)


def _partly_kept(tables: CheckedTables) -> pa.Table:
    """`rid, attempt` of those that lived in passes that were left out: nothing that takes all of them can be asked."""
    requests = tables.table("requests")
    until = first_known(ints(requests, "returned"), np.full(requests.num_rows, FOR_EVER))
    touched = tables.left_out.touches(ints(requests, "worker"), ints(requests, "arrival"), until)
    return requests.select(["rid", "attempt"]).filter(pa.array(touched))


def _not_recorded(rule: Rule, info: RunInfo) -> Check | None:
    """What a rule says that has nothing to look at, since the run was never meant to hold it; None if it has."""
    missing = [table for table in rule.needs if info.recorded_tables and table not in info.recorded_tables]
    return Check(rule.name, True, f"not recorded in this run: {', '.join(missing)}") if missing else None


def _apply(db: duckdb.DuckDBPyConnection, rule: Rule) -> Check:
    broken = db.sql(rule.broken).to_arrow_table()
    detail = f"{_count(db, rule.counted):,} {rule.noun}"
    if rule in _REMARKS:
        detail += _remark(db, _REMARKS[rule])
    if broken.num_rows:
        detail = f"{broken.num_rows:,} rows break it, of {detail}"
    return Check(rule.name, not broken.num_rows, detail, _shown(broken))


def _count(db: duckdb.DuckDBPyConnection, table: str) -> int:
    (count,) = db.table(table).count("*").fetchall()[0]
    return int(count)


_NOT_ASKED: Final = (
    "SELECT format(', but for {:,} whose passes were not all kept', nullif(count(*), 0)) FROM partly_kept"
)
_REMARKS: Final = {
    ATTEMPTS_END_ONCE: "SELECT string_agg(', ' || n || ' ' || status, '' ORDER BY n DESC, status) "
    "FROM (SELECT status::VARCHAR AS status, count(*) AS n FROM requests GROUP BY ALL)",
    CAUSES_SUM: "SELECT format(', {:,} of {:,} ns of the answered ones are UNNAMED', "
    "sum(unnamed)::BIGINT, sum(named)::BIGINT) "
    "|| coalesce(format(' and {:,} NOT_KEPT', sum(not_kept)::BIGINT), '') "
    "FROM causes SEMI JOIN (FROM requests WHERE status = 'ok') USING (rid, attempt)",
    PASSES_TILE: "SELECT format(', and {:,} between them left out on purpose', sum(stop - first)::BIGINT) "
    "FROM left_out",
    STAMPS_MATCH_STEPS: _NOT_ASKED,
    TOKENS_ADD_UP: _NOT_ASKED,
}
"""What else the detail of a check has to tell."""


def _remark(db: duckdb.DuckDBPyConnection, sql: str) -> str:
    (text,) = db.sql(sql).fetchall()[0]
    return text or ""


def _shown(broken: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = broken.slice(0, MOST_ROWS).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _files_intact(damages: Sequence[Damage]) -> Check:
    rows = [{"file": damage.file, "what": damage.what} for damage in damages[:MOST_ROWS]]
    detail = f"{len(damages):,} damaged, their rows may be missing below" if damages else "no damage found"
    return Check("files intact", not damages, detail, rows)


def _nothing_dropped(drops: Mapping[tuple[str, str], int]) -> Check:
    rows = [
        {"producer": producer, "table": table, "drops": count}
        for (producer, table), count in sorted(drops.items())
        if count
    ]
    total = sum(drops.values())
    told = ", ".join(f"{row['drops']:,} of {row['producer']}.{row['table']}" for row in rows)
    detail = f"{total:,} records dropped: {told}" if total else f"no record dropped in {len(drops):,} rings"
    return Check("nothing dropped", not total, detail, rows[:MOST_ROWS])
