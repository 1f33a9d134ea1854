"""What the views of the Budget screen ask a run: questions for a thread, on a cursor that they put under the filter."""

from collections.abc import Sequence
from typing import Any, Final

import duckdb

from console.blame.cohorts import Slow, read_cohorts
from console.blame.interference import Interference, read_culprits, read_interference, read_pairs, read_victims
from console.blame.ledgers import Ledger, Ledgers, read_ledgers, read_whole
from console.blame.rows import Row
from console.blame.spread import Spread, read_spread
from console.budget import Budget, BudgetError, Verdict, judge
from console.filter import Filter
from console.session import Session

_ONE_OF: Final = 8
"""Culprits of one cause beside it."""
_LISTED: Final = 50
_VICTIMS: Final = 500

Rows = Sequence[dict[str, Any]]
Answer = Ledger | Ledgers | Spread | Interference | tuple[Rows, Rows]
"""What a view shows; the two lists are culprits, and victims with their culprits."""


def ask_whole(only: Filter, session: Session, cursor: duckdb.DuckDBPyConnection) -> Answer:
    """All answered requests."""
    session.narrow(cursor, only)
    return read_whole(session, cursor)


def ask_ledgers(only: Filter, slow: Slow, session: Session, cursor: duckdb.DuckDBPyConnection) -> Answer:
    """The slow ones and the typical ones."""
    session.narrow(cursor, only)
    return read_ledgers(session, read_cohorts(session, slow, cursor), cursor)


def ask_spread(only: Filter, kind: str, session: Session, cursor: duckdb.DuckDBPyConnection) -> Answer:
    """What makes E2E vary."""
    session.narrow(cursor, only)
    return read_spread(session, kind, cursor)


def ask_matrix(only: Filter, by: str, session: Session, cursor: duckdb.DuckDBPyConnection) -> Answer:
    """Classes of victims and of culprits."""
    session.narrow(cursor, only)
    return read_interference(session, by, cursor)


def ask_culprits(only: Filter, session: Session, cursor: duckdb.DuckDBPyConnection) -> Answer:
    """Culprits and their victims, one by one."""
    session.narrow(cursor, only)
    return read_culprits(session, cursor, _LISTED), read_pairs(session, cursor, _VICTIMS)


def ask_behind(only: Filter, row: Row, session: Session, cursor: duckdb.DuckDBPyConnection) -> tuple[Rows, Rows]:
    """The culprits of a cause, and who lost most to it or to a phase."""
    session.narrow(cursor, only)
    culprits = read_culprits(session, cursor, _ONE_OF, row.name) if row.kind == "causes" else ()
    return culprits, read_victims(session, cursor, str(row.kind), row.name)


def ask_verdict(budget: Budget, only: Filter, session: Session, cursor: duckdb.DuckDBPyConnection) -> Verdict | str:
    """The verdict, or why there is none."""
    try:
        return judge(session, budget, only, cursor)
    except BudgetError as error:
        return str(error)
