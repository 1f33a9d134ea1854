"""A budget of a request's time, by parts: read from TOML, refused where it can't hold, held against a run (SPEC A4).

```toml
[slo]
e2e_ms = 200       # the whole
share = 0.99       # of the requests that must be inside, each part and the whole (this is the default)
[budget]           # ms; the parts sum to the whole
ingress = 20
waiting = 60       # queueing and waiting for a batch share the one budget
execution = 100
return = 20
[causes]           # ms, optional: what a request may lose to one cause; a name without "/" is all causes below it
QUEUE = 40
STALLED_BY_PREFILL = 30
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from console.decimals import whole_ns
from console.filter import EVERYTHING, Filter
from console.measures import E2E, REPORTED
from console.session import Session, rows
from console.slo import Slo, SloError, check_keys, read_toml, section, slo_of
from recorder.attribution.budget import CAUSES
from recorder.errors import UserError

if TYPE_CHECKING:
    import duckdb

PARTS: Final[dict[str, str]] = {
    "ingress": "queued - arrival",
    "waiting": "first_scheduled - queued",
    "execution": "last_token - first_scheduled",
    "return": "returned - last_token",
}
"""Part -> its formula, in the order of a request's life; queue and batch_wait are waiting, preemptions execution."""

FORMULAS: Final[dict[str, str]] = {**PARTS, **{measure.name: measure.formula for measure in REPORTED}}
_CAUSE_NAMES: Final = tuple(dict.fromkeys(name for cause in CAUSES for name in (cause.partition("/")[0], cause)))
_PHASES: Final[dict[str, tuple[str, ...]]] = {
    "ingress": ("ingress",),
    "waiting": ("queue", "batch_wait"),
    "execution": ("prefill", "decode", "preempted"),
    "return": ("return",),
}
"""What the run's phases are parts of."""


class BudgetError(UserError):
    """A budget that can't be used: names the conflict, or what the run lacks."""


@dataclass(frozen=True)
class Budget:
    """Limits in ns of the whole, of each of `PARTS`, and of what a request may lose to a cause or a family of them."""

    slo: Slo
    parts: Mapping[str, int]
    causes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """How one part, or the whole, was kept: `inside` of `of`, and percentiles in ns of the answered ones.

    `times` are whole ns but for TPOT, whose report has fractions.
    """

    name: str
    limit_ns: int
    inside: int
    of: int
    ok: bool
    times: Mapping[str, float | None]
    over: int
    """Answered ones beyond it."""
    worst: Sequence[Mapping[str, Any]]
    """`request_id` and `ns` of those that took longest beyond it."""

    @property
    def share(self) -> Fraction | None:
        """Share inside; None where nobody could be."""
        return Fraction(self.inside, self.of) if self.of else None


@dataclass(frozen=True)
class Verdict:
    """What a run makes of a budget. `phases` are percentiles of the phases that parts consist of, where recorded."""

    run: str
    budget: Budget
    kept: Sequence[Kept]
    states: Mapping[str, int]
    phases: Mapping[str, Sequence[Mapping[str, Any]]]
    only: Filter = EVERYTHING

    @property
    def ok(self) -> bool:
        """Whether all limits hold."""
        return all(kept.ok for kept in self.kept)


def read_budget(path: Path) -> Budget:
    """The budget in a TOML file. Raises SloError or NumberError for what can't be read, BudgetError for a conflict."""
    data = read_toml(path)
    check_keys(data, ["slo", "budget", "causes"], str(path))
    slo = slo_of(section(data, "slo", path), f"{path}: [slo]")
    if slo.e2e_ns is None:
        raise SloError(f"{path}: [slo] has no e2e_ms: say how long the parts may take together")
    values = section(data, "budget", path)
    check_keys(values, list(PARTS), f"{path}: [budget]")
    parts = {name: whole_ns(values[name], f"{path}: [budget] {name}") for name in PARTS if name in values}
    if found := conflict(slo, parts):
        raise BudgetError(f"{path}: infeasible: {found}")
    return Budget(slo, parts, _causes_of(data, path))


def _causes_of(data: Mapping[str, object], path: Path) -> dict[str, int]:
    if "causes" not in data:
        return {}
    values = {name.upper(): value for name, value in section(data, "causes", path).items()}
    check_keys(values, _CAUSE_NAMES, f"{path}: [causes]")
    return {name: whole_ns(value, f"{path}: [causes] {name}") for name, value in values.items()}


def conflict(slo: Slo, parts: Mapping[str, int]) -> str | None:
    """Why these parts can't make up the whole of `slo.e2e_ns`, in words; None where they can."""
    whole = slo.e2e_ns or 0
    for name, ns in parts.items():
        if ns >= whole:
            rest = ", ".join(other for other in PARTS if other != name)
            return f"{_ms(whole)} end to end with {_ms(ns)} of {name} leaves nothing for {rest}"
    total = sum(parts.values())
    sums = " + ".join(f"{name} {ns / 1e6:g}" for name, ns in parts.items()) or "no parts"
    missing = [name for name in PARTS if name not in parts]
    if total > whole:
        return f"{sums} = {_ms(total)}, which is {_ms(total - whole)} more than the {_ms(whole)} end to end"
    if missing:
        left = _ms(whole - total)
        return f"no budget for {', '.join(missing)}: give a number (0 if it may take no time); left are {left}"
    if total < whole:
        return f"{sums} = {_ms(total)}, and {_ms(whole - total)} of the {_ms(whole)} end to end are given to no part"
    return _first_token_conflict(slo, parts)


def _first_token_conflict(slo: Slo, parts: Mapping[str, int]) -> str | None:
    before = parts["ingress"] + parts["waiting"]
    if slo.ttft_ns is not None and before >= slo.ttft_ns:
        return (
            f"ingress and waiting may take {_ms(before)}, which leaves nothing of the {_ms(slo.ttft_ns)} to the first"
            " token for its prefill"
        )
    return None


def judge(
    session: Session,
    budget: Budget,
    only: Filter = EVERYTHING,
    cursor: "duckdb.DuckDBPyConnection | None" = None,
) -> Verdict:
    """Hold a run against a budget. Raises BudgetError for a run that can't tell: no requests, or stamps missing.

    `cursor` is a fresh one, which lets the caller interrupt.
    """
    cursor = cursor if cursor is not None else session.connect()
    session.narrow(cursor, only)
    states = {str(row["status"]): int(str(row["n"])) for row in rows(session.ask("states", cursor=cursor))}
    ended = sum(n for state, n in states.items() if state != "open")
    if not ended:
        raise BudgetError(f"{session.name}: no request has ended: there is nothing to hold against the budget")
    limits = {**budget.parts, **{name: limit for name, limit in budget.slo.limits.items() if limit is not None}}
    found = _times(session, limits, cursor)
    if "tpot" in found:
        percentiles = rows(session.ask("percentiles", cursor=cursor))
        found["tpot"].update(next(row for row in percentiles if row["measure"] == "tpot"))
    untold = [name for name in [*PARTS, E2E.name] if name not in found]
    if states.get("ok") and untold:
        raise BudgetError(f"{session.name}: it was not recorded how long {', '.join(untold)} took: stamps are missing")
    found |= _times(session, budget.causes, cursor)
    kept = [
        _kept(name, limit, found.get(name), ended, budget.slo) for name, limit in {**limits, **budget.causes}.items()
    ]
    return Verdict(session.name, budget, kept, states, _phases(session, cursor), only)


def formula(name: str) -> str:
    """What a part of a budget is, in the words of the columns that it is computed from."""
    return FORMULAS.get(name) or f"sum of ns in causes, where the cause is {name} or below it"


def _times(
    session: Session, limits: Mapping[str, int], cursor: "duckdb.DuckDBPyConnection"
) -> dict[str, dict[str, object]]:
    """What is known of each part or cause that has a limit; nothing of one that nobody has lived through."""
    found = {}
    for name, limit in limits.items():
        question, what = ("budget", "part") if name in FORMULAS else ("budget_causes", "cause")
        (row,) = rows(session.ask(question, cursor=cursor, limit_ns=limit, **{what: name}))
        if row["n"]:
            found[name] = row
    return found


def document(verdict: Verdict) -> dict[str, Any]:
    """What `tailtrace budget --json` prints; times in ms."""
    return {
        "run": verdict.run,
        "filter": str(verdict.only),
        "ok": verdict.ok,
        "slo": verdict.budget.slo.document(),
        "requests": dict(verdict.states),
        "budget": {kept.name: _document(kept) for kept in verdict.kept},
        "phases_ms": {part: list(phases) for part, phases in verdict.phases.items()},
        "formulas": {**FORMULAS, **{name: formula(name) for name in verdict.budget.causes}},
    }


def _document(kept: Kept) -> dict[str, Any]:
    return {
        "budget_ms": kept.limit_ns / 1e6,
        "ok": kept.ok,
        "inside": kept.inside,
        "of": kept.of,
        "over": kept.over,
        "share": None if kept.share is None else float(kept.share),
        **{rank: None if ns is None else ns / 1e6 for rank, ns in kept.times.items()},
        "worst": [{"request_id": one["request_id"], "ms": one["ns"] / 1e6} for one in kept.worst],
    }


def _kept(name: str, limit: int, row: Mapping[str, Any] | None, ended: int, slo: Slo) -> Kept:
    """The whole is kept by who was answered in time, of all that ended; a part by its share of the answered ones.

    Nobody breaks TPOT where no answer has a second token, nor a cause's limit where nobody was answered.
    """
    inside, measured = (row["inside"], row["n"]) if row else (0, 0)
    of = ended if name == E2E.name else measured
    ok = slo.met(inside, of) or (name not in {*PARTS, E2E.name} and not of)
    times = {rank: cast("float | None", row[rank] if row else None) for rank in ("p50", "p95", "p99", "max")}
    return Kept(name, limit, inside, of, ok, times, measured - inside, row["worst"] if row else [])


def _phases(session: Session, cursor: "duckdb.DuckDBPyConnection") -> dict[str, list[dict[str, Any]]]:
    """Percentiles in ms of the phases that parts with several consist of; nothing for runs without spans."""
    found = {str(row["name"]): row for row in rows(session.ask("phases", cursor=cursor))}
    return {
        part: [
            {"name": name, **{rank: float(str(found[name][rank])) / 1e6 for rank in ("p50", "p95", "p99")}}
            for name in names
            if name in found
        ]
        for part, names in _PHASES.items()
        if len(names) > 1
    }


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.9g} ms"
