"""Who is slow, and who is typical: two cohorts of the answered requests, by one measure (SPEC F3). Plain data."""

import re
from dataclasses import dataclass
from decimal import Decimal
from math import floor
from typing import TYPE_CHECKING, Final

from console.filter import Bound, Filter, Words, duration_text
from console.filter_language import parse_duration
from console.measures import E2E, REPORTED, TPOT, TTFT, Measure
from console.session import Session, rows
from recorder.errors import UserError

if TYPE_CHECKING:
    import duckdb

_BY_NAME: Final = {measure.name: measure for measure in REPORTED}
_SLOW: Final = re.compile(r"(?:(e2e|ttft|tpot)\s*(?::|>)\s*)?(?:p(\d+(?:\.\d+)?)|(\S+))", re.IGNORECASE)
_LEAST: Final = Decimal(50)
_MOST: Final = Decimal(100)
SLOW_HELP: Final = "p95, p99.9, 2s, ttft:p99, tpot>50ms"


class SlowError(UserError):
    """The text does not say what is slow; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Slow:
    """What counts as slow: at or above a percentile of a measure, or over a limit in ns. `str` is what is typed."""

    measure: Measure = E2E
    percentile: Decimal = Decimal(95)
    limit_ns: int | None = None

    def __str__(self) -> str:
        if self.limit_ns is not None:
            return f"{self.measure.name}>{duration_text(self.limit_ns)}"
        return f"{self.measure.name}:p{self.percentile.normalize():f}"


@dataclass(frozen=True, slots=True)
class Cohorts:
    """The two cohorts of a run: `edge` to `high` in ns of the measure, as they came out; None where none was answered.

    The slow ones are beyond `edge` or, where a percentile chose it, at it too. The typical ones lie between `low`
    and `high`, the quartiles, and are not slow.
    """

    slow: Slow
    n: int
    edge: float | None
    low: float | None
    high: float | None

    @property
    def at(self) -> bool:
        """Whether who took exactly `edge` is slow."""
        return self.slow.limit_ns is None

    @property
    def params(self) -> dict[str, object]:
        """As questions in SQL take them that tell both cohorts apart."""
        return {
            "measure": self.slow.measure.name,
            "edge": self.edge,
            "at": self.at,
            "low": self.low,
            "high": self.high,
        }

    @property
    def slow_filter(self) -> Filter:
        """The slow cohort as a filter. Filters have whole ns: a TPOT with a fraction is as slow as its whole ns."""
        if self.edge is None:
            return Filter((Words("status", ("ok",)),))
        whole = floor(self.edge)
        bound = Bound(self.slow.measure.name, ">=" if self.at and whole == self.edge else ">", whole)
        return Filter((Words("status", ("ok",)), bound))

    @property
    def words(self) -> str:
        """What makes a request slow, and what typical, in words."""
        if self.edge is None or self.low is None or self.high is None:
            return "no request was answered"
        title = self.slow.measure.title
        edge, low, high = (f"{ns / 1e6:,.3f}" for ns in (self.edge, self.low, self.high))
        slow = f"{title} over {edge} ms" if not self.at else f"{title} ≥ p{self.slow.percentile:f} = {edge} ms"
        return f"slow: {slow}; typical: {title} between p25 = {low} ms and p75 = {high} ms"


def parse_slow(text: str) -> Slow:
    """What `--slow` means: `p95`, `ttft:p99`, `2s`, `tpot>50ms`. Raises SlowError."""
    match = _SLOW.fullmatch(text.strip())
    if match is None:
        raise SlowError(f"{text!r} does not say what is slow: give a percentile or a time: {SLOW_HELP}")
    measure = _BY_NAME[(match[1] or E2E.name).lower()]
    if match[2] is None:
        return Slow(measure, limit_ns=parse_duration("slow", match[3]))
    percentile = Decimal(match[2])
    if percentile > _MOST:
        raise SlowError(f"{text!r}: a percentile lies from 0 to 100; give one such as p95 or p99.9")
    if percentile < _LEAST:
        raise SlowError(f"{text!r}: the slow ones are the upper half at most; give p50 or more, such as p95")
    return Slow(measure, percentile)


def slow_ideas(slo_ns: int | None) -> list[Slow]:
    """What a screen offers as slow, in turn: over the SLO, if there is one, then percentiles."""
    given = [] if slo_ns is None else [Slow(limit_ns=slo_ns)]
    return [*given, Slow(), Slow(percentile=Decimal(99)), Slow(percentile=Decimal(90)), Slow(TTFT), Slow(TPOT)]


def read_cohorts(session: Session, slow: Slow, cursor: "duckdb.DuckDBPyConnection") -> Cohorts:
    """Where the cohorts begin and end, of the answered requests that the cursor sees."""
    share = float(slow.percentile / 100)
    found = rows(session.ask("cohort_bounds", cursor=cursor, measure=slow.measure.name, slow=share))[0]
    edge, low, high = (None if found[name] is None else float(str(found[name])) for name in ("slow", "low", "high"))
    if slow.limit_ns is not None:
        edge = float(slow.limit_ns)
    return Cohorts(slow, int(str(found["n"])), edge, low, high)
