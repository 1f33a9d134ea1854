"""The report of one run: plain data that goes out as JSON as it is; `console.text.report` turns it into lines.

Keys carry their unit. A number that does not exist (a percentile of nothing) is null, never NaN and never 0.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, cast

import pyarrow as pa

from console import measures
from console.filter import EVERYTHING, Filter
from console.health import recorder_health
from console.ranks import measures_and_phases
from console.session import Session, rows
from console.survival import FORMULA as SURVIVAL_FORMULA
from console.survival import Survival, survival
from recorder.run import run_state
from recorder.words import Phase, Status

if TYPE_CHECKING:
    import duckdb

_MS: Final = 1e6
_S: Final = 1e9
UNNAMED: Final = "UNNAMED"
NOT_KEPT: Final = "NOT_KEPT"
"""Time in passes that the flight recorder left out: no more named than what no stamp names."""


class Percentiles(TypedDict):
    """Nearest-rank percentiles of one measure over the `n` answered requests that have it, in ms."""

    n: int
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class PhaseTimes(TypedDict):
    """Time of the answered requests in one phase, in ms; `share` is of the sum of their end-to-end times."""

    p50: float | None
    p95: float | None
    p99: float | None
    total: float
    share: float | None


class Explanation(TypedDict):
    """Where the time of the answered requests went. `closure` is null where none was answered."""

    causes_ns: dict[str, int]
    causes_modelled: list[str]
    roots_ns: dict[str, int]
    closure: float | None


class Report(Explanation):
    """What `tailtrace report --json` prints. `censored` requests make every percentile a lower bound (SPEC E5, F4):
    then `kaplan_meier` has `ttft_ms` and `e2e_ms` with them in it; otherwise it is empty.

    `handed_on` attempts of lost workers are no requests of their own: others went on with them.
    `goodput_per_s` of the throughput is null where no SLO was given (SPEC D2).
    `filter` says which requests it is about; "" for all. Workers and recorder are never filtered.
    """

    run: str
    state: str
    filter: str
    setup: dict[str, Any]
    requests: dict[str, int]
    handed_on: int
    censored: int
    ttft_ms: Percentiles
    tpot_ms: Percentiles
    e2e_ms: Percentiles
    kaplan_meier: dict[str, Survival]
    phases_ms: dict[str, PhaseTimes]
    throughput: dict[str, float | None]
    window_s: float | None
    workers: list[dict[str, Any]]
    recorder: dict[str, Any]
    left_out: dict[str, float]
    damages: list[dict[str, str]]
    formulas: dict[str, str]


class _Ask(Protocol):
    """`Session.ask` on the cursor of this report."""

    def __call__(self, name: str, /) -> pa.Table: ...


def report(
    session: Session,
    only: Filter = EVERYTHING,
    cursor: "duckdb.DuckDBPyConnection | None" = None,
    slo_ns: int | None = None,
) -> Report:
    """Everything the report says of a run. Never fails on a run that is merely odd: empty, unfinished, all rejected.

    `cursor` is a fresh one, which lets the caller interrupt. `slo_ns` bounds the E2E of what counts as goodput.
    """
    cursor = cursor if cursor is not None else session.connect()
    found = numbers(session, only, cursor, slo_ns)
    return {**found, **explanation(session, cursor)}


def numbers(session: Session, only: Filter, cursor: "duckdb.DuckDBPyConnection", slo_ns: int | None = None) -> Report:
    """The report but for the causes, which take longest: they are empty. Puts the fresh `cursor` under the filter."""
    session.narrow(cursor, only)
    ask = partial(session.ask, cursor=cursor)
    measured, phases = measures_and_phases(session, only, cursor)
    percentiles = {str(row["measure"]): row for row in measured}
    window = rows(ask("window"))[0]
    window_ns = _window_ns(window)
    censored = _int(rows(ask("censored"))[0]["n"])
    return Report(
        run=session.name,
        state=run_state(session.path),
        filter=str(only),
        setup=_setup(session),
        requests=_states(ask),
        handed_on=_int(rows(ask("handed_on"))[0]["n"]),
        censored=censored,
        ttft_ms=_percentiles(percentiles.get("ttft")),
        tpot_ms=_percentiles(percentiles.get("tpot")),
        e2e_ms=_percentiles(percentiles.get("e2e")),
        kaplan_meier={f"{name}_ms": found for name, found in survival(session, cursor).items()} if censored else {},
        phases_ms=_phases(phases),
        causes_ns={},
        causes_modelled=[],
        roots_ns={},
        closure=None,
        throughput={
            "requests_per_s": _rate(window["ok"], window_ns),
            "goodput_per_s": None if slo_ns is None else _rate(_inside(session, cursor, slo_ns), window_ns),
            "output_tokens_per_s": _rate(window["output_tokens"], window_ns),
        },
        window_s=None if window_ns is None else window_ns / _S,
        workers=rows(ask("workers")),
        recorder=_recorder(session, cursor, ask),
        left_out={"passes": session.tables.left_out.passes, "seconds": session.tables.left_out.ns / _S},
        damages=[{"file": damage.file, "what": damage.what} for damage in session.damages],
        formulas=formulas(),
    )


def explanation(session: Session, cursor: "duckdb.DuckDBPyConnection") -> Explanation:
    """The part of the report that `numbers` leaves empty; `cursor` is under the same filter."""
    ask = partial(session.ask, cursor=cursor)
    causes = rows(ask("causes"))
    causes_ns = {str(row["cause"]): _int(row["ns"]) for row in causes}
    return Explanation(
        causes_ns=causes_ns,
        causes_modelled=sorted(str(row["cause"]) for row in causes if not row["measured"]),
        roots_ns={str(row["root"]): _int(row["ns"]) for row in rows(ask("roots"))},
        closure=_closure(ask, causes_ns),
    )


def formulas() -> dict[str, str]:
    """What each number is, in the words of the columns it is computed from (SPEC D1)."""
    return {
        **{f"{measure.name}_ms": measure.formula for measure in measures.REPORTED},
        "closure": measures.CLOSURE_FORMULA,
        "kaplan_meier": SURVIVAL_FORMULA,
        "requests_per_s": measures.REQUEST_RATE_FORMULA,
        "goodput_per_s": measures.GOODPUT_FORMULA,
        "output_tokens_per_s": measures.TOKEN_RATE_FORMULA,
        "window_s": measures.WINDOW_FORMULA,
    }


def _setup(session: Session) -> dict[str, Any]:
    """What was run, for the head of the report."""
    info = session.tables.info
    return {
        "created": info.created,
        "clock": info.clock.kind,
        "config": info.config,
        "model": info.model,
        "devices": info.devices,
        "workload": info.workload,
        "seed": info.seed,
        "parent": info.parent,
    }


def _states(ask: _Ask) -> dict[str, int]:
    counted = {str(row["status"]): _int(row["n"]) for row in rows(ask("states"))}
    order = (Status.OK, Status.REJECTED, Status.EXPIRED, Status.CANCELLED, Status.FAILED, Status.OPEN)
    return {"total": sum(counted.values()), **{status.value: counted.get(status.value, 0) for status in order}}


def _percentiles(row: dict[str, object] | None) -> Percentiles:
    if row is None:
        return Percentiles(n=0, p50=None, p95=None, p99=None, max=None)
    return Percentiles(
        n=_int(row["n"]), p50=_ms(row["p50"]), p95=_ms(row["p95"]), p99=_ms(row["p99"]), max=_ms(row["max"])
    )


def _phases(told: list[dict[str, object]]) -> dict[str, PhaseTimes]:
    """Every phase in the order of a request's life; one that nobody was in has nulls and a total of 0."""
    found = {str(row["name"]): row for row in told}
    return {phase.value: _phase(found.get(phase.value)) for phase in Phase}


def _phase(row: dict[str, object] | None) -> PhaseTimes:
    if row is None:
        return PhaseTimes(p50=None, p95=None, p99=None, total=0.0, share=None)
    return PhaseTimes(
        p50=_ms(row["p50"]),
        p95=_ms(row["p95"]),
        p99=_ms(row["p99"]),
        total=_int(row["total"]) / _MS,
        share=cast("float | None", row["share"]),
    )


def _closure(ask: _Ask, causes_ns: dict[str, int]) -> float | None:
    """Named time over end-to-end time of the answered requests (SPEC F1); not a number where none was answered."""
    whole = _int(rows(ask("answered_time"))[0]["ns"])
    named = sum(ns for cause, ns in causes_ns.items() if cause not in {UNNAMED, NOT_KEPT})
    return named / whole if whole else None


def _inside(session: Session, cursor: "duckdb.DuckDBPyConnection", slo_ns: int) -> object:
    return rows(session.ask("slo", cursor=cursor, ttft_ns=None, tpot_ns=None, e2e_ns=slo_ns))[0]["inside"]


def _window_ns(window: dict[str, object]) -> int | None:
    if window["began"] is None or window["ended"] is None:
        return None
    return _int(window["ended"]) - _int(window["began"])


def _recorder(session: Session, cursor: "duckdb.DuckDBPyConnection", ask: _Ask) -> dict[str, Any]:
    health = recorder_health(session, cursor)
    incomplete = _int(rows(ask("incomplete"))[0]["n"])
    return {**health, "gaps": rows(ask("drops")), "incomplete": incomplete}


def _rate(count: object, window_ns: int | None) -> float | None:
    return _int(count) / window_ns * _S if window_ns else None


def _ms(ns: object) -> float | None:
    return None if ns is None else cast("float", ns) / _MS


def _int(value: object) -> int:
    return cast("int", value)
