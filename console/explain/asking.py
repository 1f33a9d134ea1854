"""Questions of an account, on one cursor, and their answers as plain data."""

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from console.blame.cohorts import Cohorts
from console.diagnosis import Pulse, Ranks, Refusals, pulse_of
from console.session import Session, rows
from console.timeline import Floats, Ints

if TYPE_CHECKING:
    import duckdb

R = TypeVar("R")


class Ask:
    """Questions about one run, on one cursor, about its cohorts."""

    def __init__(self, session: Session, cursor: "duckdb.DuckDBPyConnection", cohorts: Cohorts) -> None:
        self._any = partial(session.ask, cursor=cursor)
        self._slow = {"measure": cohorts.slow.measure.name, "edge": cohorts.edge, "at": cohorts.at}
        self._both = {**self._slow, "low": cohorts.low, "high": cohorts.high}

    def plain(self, name: str) -> list[dict[str, Any]]:
        """The rows of a question that others ask too."""
        return rows(self._any(name))

    def rows(self, name: str, **params: Any) -> list[dict[str, Any]]:  # noqa: ANN401  # whatever DuckDB takes
        """One of the questions that only an account asks."""
        return rows(self._any(f"explain_{name}", **params))

    def all(self, kind: type[R], name: str, **params: object) -> tuple[R, ...]:
        """Rows as values of `kind`, whose fields are the columns."""
        return tuple(kind(**row) for row in self.rows(name, **params))

    def of_slow(self, name: str, **params: object) -> list[dict[str, Any]]:
        """Rows about the slow ones."""
        return self.rows(name, **self._slow, **params)

    def of_both(self, name: str, **params: object) -> list[dict[str, Any]]:
        """Rows about the slow and the typical ones."""
        return self.rows(name, **self._both, **params)

    def pulse(self, refusals: Refusals) -> Pulse:
        """What the rules of the pulse test make of E2E."""
        (found,) = self.plain("e2e_ranks")
        ranks = Ranks(**{field.name: found[field.name] for field in fields(Ranks)})
        return pulse_of(ranks, self._below, refusals)

    def _below(self, edges: Floats) -> Ints:
        """How many took less than each of these; whole ns are less than an edge where they are less than the next."""
        whole = np.ceil(edges).astype(np.int64)
        found = self._any("e2e_below", edges=tuple(np.unique(whole).tolist()))
        below: Ints = found["below"].to_numpy()[np.searchsorted(found["edge"].to_numpy(), whole)]
        return below
