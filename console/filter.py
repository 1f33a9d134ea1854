"""Which requests are looked at: one conjunction of terms, printed as it is typed, compiled to one SQL predicate. Pure.

A filter picks attempts; what a worker did is never filtered. `console.filter_language` reads what somebody types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from console.measures import E2E, MEASURES, QUEUE, TPOT, TTFT, phase_column
from recorder.schema import REQUESTS, Column
from recorder.words import Phase

Op = Literal[">", ">=", "<", "<="]

SHORT: Final = {"request_id": "id", "prompt_tokens": "prompt", "output_tokens": "output"}
"""Columns of `requests` that have a shorter name as fields; any other is a field by its own name."""


def _of_columns(words: bool, unit: str = "") -> dict[str, str]:
    """The fields that columns of one kind make, and the columns."""
    return {SHORT.get(column.name, column.name): column.name for column in REQUESTS.columns
            if _is_words(column) is words and column.unit == unit}  # fmt: skip


def _is_words(column: Column) -> bool:
    return isinstance(column.kind, int) or bool(column.words)


_NAMES: Final = _of_columns(words=True)
WORDS: Final = {
    **{field: _NAMES.pop(field) for field in ("status", "tier", "tenant", "model")},
    "worker": "worker::VARCHAR",
    **_NAMES,
}
"""Fields that are matched by words; a word may hold `*` (anything) and `?` (one character)."""

_BEGIN: Final = "(SELECT min(arrival) FROM memory.main.requests)"
TIMES: Final = {
    **{measure.name: measure.column for measure in (E2E, TTFT, TPOT, QUEUE)},
    **{
        field: column if column.endswith("_ns") else f"{column} - {_BEGIN}"
        for field, column in _of_columns(words=False, unit="ns").items()
    },
}
"""Fields that are times, in ns; stamps such as `arrival` count from the run's first arrival."""

COUNTS: Final = {
    field: column
    for field, column in sorted(_of_columns(words=False).items(), key=lambda one: one[0] not in SHORT.values())
    if field not in WORDS
}
"""Fields that are whole numbers. They can be matched as words too: `http_status:429` beside `http_status>=400`."""

_FINISH: Final = f"""coalesce(returned, CASE status WHEN 'open' THEN {2**63 - 1}
    ELSE greatest(arrival, admitted, queued, first_scheduled, first_token, last_token) END)"""
_UNITS: Final = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_NEEDS_QUOTES: Final = frozenset(' \t\r\n",\\')


@dataclass(frozen=True, slots=True)
class Words:
    """`tier:paid,gold` or `http_status:4*`: the field is one of these."""

    field: str
    patterns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.field}:{','.join(quoted(pattern) for pattern in self.patterns)}"

    def sql(self) -> str:
        """True where one of the patterns fits; what is not recorded is the empty word."""
        column = WORDS.get(self.field) or f"{COUNTS[self.field]}::VARCHAR"
        value = f"coalesce({column}, '')"
        return " OR ".join(_fits(value, pattern) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class Bound:
    """`e2e>2s` or `prompt>=1000`: times in ns."""

    field: str
    op: Op
    value: int

    def __str__(self) -> str:
        return f"{self.field}{self.op}{duration_text(self.value) if self.field in TIMES else self.value}"

    def sql(self) -> str:
        """Unknown where the attempt lacks the stamps."""
        column = TIMES.get(self.field) or COUNTS[self.field]
        return f"({column}) {self.op} {self.value}"


@dataclass(frozen=True, slots=True)
class Alive:
    """`alive:2s..5s`: some of its life lies in the stretch `[start, end)` of the run, ns since the first arrival."""

    start: int | None
    end: int | None

    def __str__(self) -> str:
        start, end = ("" if t is None else duration_text(t) for t in (self.start, self.end))
        return f"alive:{start}..{end}"

    def sql(self) -> str:
        """An open attempt lives on."""
        sides = [f"arrival < {_BEGIN} + {self.end}"] if self.end is not None else []
        sides += [f"{_FINISH} >= {_BEGIN} + {self.start}"] if self.start is not None else []
        return " AND ".join(sides) or "true"


@dataclass(frozen=True, slots=True)
class Part:
    """`cause:QUEUE>50%` or `phase:decode>1s`: time in a cause (with what is below it) or a phase.

    `amount` is a share of end to end in per cent where it is a Decimal, else ns.
    """

    kind: Literal["cause", "phase"]
    name: str
    op: Op = ">"
    amount: Decimal | int = 0

    def __str__(self) -> str:
        if (self.op, self.amount) == (">", 0) and isinstance(self.amount, int):
            return f"{self.kind}:{self.name}"
        amount = duration_text(self.amount) if isinstance(self.amount, int) else f"{self.amount.normalize():f}%"
        return f"{self.kind}:{self.name}{self.op}{amount}"

    def sql(self) -> str:
        """Exact: shares are compared as whole numbers. Unknown where a share is asked for and there is no end."""
        return self._holds(self._spent())

    def wide_sql(self) -> str:
        """The same, of a row that has a column for each phase and cause (`console.views.create_views`)."""
        return self._holds(" + ".join(f'coalesce("{name}", 0)' for name in self._columns()) or "0")

    def _columns(self) -> list[str]:
        from recorder.attribution.budget import CAUSES  # more than who only reads a filter has to load

        if self.kind == "phase":
            return [phase_column(phase.value) for phase in Phase if phase.value == self.name]
        return [cause for cause in CAUSES if cause == self.name or cause.startswith(f"{self.name}/")]

    def _holds(self, spent: str) -> str:
        if isinstance(self.amount, int):
            return f"({spent}) {self.op} {self.amount}"
        above, below = (self.amount / 100).as_integer_ratio()
        return f"({spent}) * {below}::HUGEINT {self.op} {E2E.column}::HUGEINT * {above}"

    def _spent(self) -> str:
        if self.kind == "phase":
            of = f'sum("end" - start) FROM spans AS part WHERE part.name = {_literal(self.name)}'
        else:
            below = f"starts_with(part.cause, {_literal(self.name + '/')})"
            of = f"sum(ns) FROM causes AS part WHERE (part.cause = {_literal(self.name)} OR {below})"
        return f"coalesce((SELECT {of} AND part.rid = lived.rid AND part.attempt = lived.attempt), 0)"


@dataclass(frozen=True, slots=True)
class Blamed:
    """`culprit:812`: some of its time was taken by one of these requests, by number in the run or by id."""

    culprits: tuple[str, ...]

    def __str__(self) -> str:
        return f"culprit:{','.join(quoted(culprit) for culprit in self.culprits)}"

    def sql(self) -> str:
        """True where a cause of the attempt has one of them as its culprit."""
        found = " OR ".join(self._is(culprit) for culprit in self.culprits)
        its_own = "part.rid = lived.rid AND part.attempt = lived.attempt"
        return f"EXISTS (SELECT 1 FROM causes AS part WHERE {its_own} AND ({found}))"

    @staticmethod
    def _is(culprit: str) -> str:
        if culprit.isascii() and culprit.isdigit():
            return f"part.culprit::VARCHAR = {_literal(str(int(culprit)))}"
        return f"part.culprit IN (SELECT rid FROM requests WHERE {_fits('request_id', culprit)})"


@dataclass(frozen=True, slots=True)
class Asked:
    """`sql:"SELECT rid FROM ..."`: in the answer to a question, by its column `rid`.

    `attempts:"SELECT rid, attempt FROM ..."`: by both of these columns.
    """

    question: str
    field: Literal["sql", "attempts"] = "sql"

    def __str__(self) -> str:
        return f"{self.field}:{quoted(self.question)}"

    def sql(self) -> str:
        """The question ends with its line: it may end in a comment."""
        wanted = ("rid", "attempt") if self.field == "attempts" else ("rid",)
        # A column that is not there has to be missed: its name alone would mean that of the attempt itself.
        columns = ", ".join(f"COLUMNS('(?i)^{name}$')" for name in wanted)
        answer = f"(SELECT {columns} FROM ({self.question}\n)) AS asked"
        if self.field == "attempts":
            same = "asked.rid = lived.rid AND asked.attempt = lived.attempt"
            return f"EXISTS (SELECT 1 FROM {answer} WHERE {same})"
        return f"lived.rid IN (SELECT asked.rid FROM {answer})"


Plain = Words | Bound | Alive | Part | Blamed | Asked


@dataclass(frozen=True, slots=True)
class Not:
    """`-tier:paid`: everything else, what is not known included."""

    term: Plain

    def __str__(self) -> str:
        return f"-{self.term}"

    def sql(self) -> str:
        """The complement: every attempt is in the term or in this."""
        return f"NOT coalesce({self.term.sql()}, false)"


Term = Plain | Not


@dataclass(frozen=True, slots=True)
class Filter:
    """All of its terms hold. Without terms it lets everything through. `str` gives what somebody would type."""

    terms: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __and__(self, other: "Filter") -> "Filter":
        """What both let through."""
        return Filter(tuple(dict.fromkeys((*self.terms, *other.terms))))

    def without(self, place: int) -> "Filter":
        """Without one of its terms."""
        return Filter(tuple(term for i, term in enumerate(self.terms) if i != place))

    @property
    def of_rows(self) -> bool:
        """Whether the wide row of an attempt tells by itself if it is let through; other terms ask other tables."""
        return all(isinstance(term, Words | Bound | Alive | Part) for term in self._plain)

    @property
    def of_causes(self) -> bool:
        """Whether it asks for the time in a cause."""
        return any(isinstance(term, Part) and term.kind == "cause" for term in self._plain)

    @property
    def _plain(self) -> Iterator[Plain]:
        return (term.term if isinstance(term, Not) else term for term in self.terms)

    def predicate(self, *, wide: bool = False) -> str:
        """SQL over one row `lived` of `requests` with the measures of `latency`; a `wide` row has phases and causes."""
        return " AND ".join(f"coalesce({_sql(term, wide=wide)}, false)" for term in self.terms) or "true"

    def sql(self) -> str:
        """A SELECT of `rid, attempt`: what it lets through."""
        measures = ", ".join(f"{measure.sql} AS {measure.column}" for measure in MEASURES)
        return f"SELECT rid, attempt FROM (SELECT *, {measures} FROM requests) AS lived WHERE {self.predicate()}"


def _sql(term: Term, *, wide: bool) -> str:
    if wide and isinstance(term, Not):
        return f"NOT coalesce({_sql(term.term, wide=True)}, false)"
    return term.wide_sql() if wide and isinstance(term, Part) else term.sql()


EVERYTHING: Final = Filter()


def quoted(word: str) -> str:
    """A word as it is typed: in quotes where it would be read otherwise."""
    if word and not _NEEDS_QUOTES.intersection(word) and not any(char.isspace() for char in word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def duration_text(ns: int) -> str:
    """A time as it is typed, to the nanosecond: `2s`, `1500ms`."""
    unit, scale = next((unit, scale) for unit, scale in _UNITS if ns % scale == 0)
    return f"{ns // scale}{unit}"


def _fits(value: str, pattern: str) -> str:
    if not {"*", "?"}.intersection(pattern):
        return f"{value} = {_literal(pattern)}"
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{value} LIKE {_literal(escaped.replace('*', '%').replace('?', '_'))} ESCAPE '\\'"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
