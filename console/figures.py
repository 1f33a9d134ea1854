"""The figures of a run that limits are held against: exact, and by the same questions that reports ask."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from console.guards import LATENCIES, PERCENTILES
from console.session import Session, rows
from console.slo import Slo

if TYPE_CHECKING:
    import duckdb

NS_A_S: Final = 10**9
NS_A_MS: Final = 10**6
_S_AN_HOUR: Final = 3600


@dataclass(frozen=True)
class Figures:
    """What one run says; times in ns. `percentiles` are per measure: n, p50, p95, p99, max.

    `answered` are the requests that it answered, `request_id` and `e2e_ns`, and `took_s` is how long it took to make
    the run, where it was made for this.
    """

    states: Mapping[str, int]
    counts: Mapping[str, Any]
    """The row of `slo.sql`."""
    window_ns: int
    percentiles: Mapping[str, Mapping[str, Any]]
    answered: pa.Table | None = None
    took_s: float = 0.0

    @property
    def total(self) -> int:
        """Requests that came."""
        return sum(self.states.values())


def measure(session: Session, slo: Slo, cursor: "duckdb.DuckDBPyConnection | None" = None) -> Figures:
    """The figures of a run; `cursor` may be under a filter."""
    window = rows(session.ask("window", cursor=cursor))[0]
    began, ended = window["began"], window["ended"]
    return Figures(
        states={str(row["status"]): int(str(row["n"])) for row in rows(session.ask("states", cursor=cursor))},
        counts=rows(session.ask("slo", cursor=cursor, **slo.params))[0],
        window_ns=0 if began is None or ended is None else int(str(ended)) - int(str(began)),
        percentiles={str(row["measure"]): row for row in rows(session.ask("percentiles", cursor=cursor))},
    )


def values_of(found: Figures, workers: int, hourly: Fraction | None) -> dict[str, Fraction | None]:
    """Every measure that a guard rail can watch (`guards.NAMES`).

    `hourly` is the price of a worker's device for an hour; None: cost is in device-seconds.
    """
    counts, total = found.counts, found.total
    ok, inside = counts["ok"], counts["inside"]
    device_s = Fraction(found.window_ns, NS_A_S) * workers
    spent = device_s if hourly is None else device_s * hourly / _S_AN_HOUR
    return {
        **{f"{rank}_{name}_ms": _ms(found, name, rank) for name in LATENCIES for rank in PERCENTILES},
        "throughput": ratio(ok * NS_A_S, found.window_ns),
        "goodput": ratio(inside * NS_A_S, found.window_ns),
        "inside_share": ratio(inside, total),
        "rejected_share": ratio(found.states.get("rejected", 0), total),
        "unanswered_share": ratio(total - ok, total),
        "cost_per_success": spent / inside if inside else None,
        "preemptions": Fraction(counts["preemptions"]),
    }


def ratio(over: int, under: int) -> Fraction | None:
    """`over / under`; None where that does not exist."""
    return Fraction(over, under) if under else None


def _ms(found: Figures, name: str, rank: str) -> Fraction | None:
    """A percentile as the report has it, in ms."""
    row = found.percentiles.get(name)
    return None if row is None else Fraction(row[rank]) / NS_A_MS
