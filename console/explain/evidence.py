"""Everything that suspects may know of a run, as plain data: what was measured, never what something is called."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from console.blame.cohorts import Cohorts, Slow, read_cohorts
from console.diagnosis import Pulse, Refusals, pulse
from console.explain.arrivals import Pinned, pinned
from console.explain.cells import NOBODY, Asked, Cell, split
from console.explain.prefixes import Shift, hits_lost
from console.session import Session, rows
from recorder.run import run_state

if TYPE_CHECKING:
    import duckdb

R = TypeVar("R")

_MANY: Final = 1_000
"""Answered requests from which the slow ones are those beyond p99; with fewer that would be a handful."""
_STILL_WAITS: Final = np.iinfo(np.int64).max
_TOLD_WHEN: Final = {429, 529}


@dataclass(frozen=True, slots=True)
class Person:
    """One request, by its last attempt."""

    rid: int
    request_id: str
    tenant: str
    tier: str
    worker: int | None
    arrival: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def computed(self) -> int:
        """Prompt tokens that were not cached."""
        return self.prompt_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True)
class Sizes:
    """What requests ask for in the middle; None where there was none."""

    n: int
    prompt_p50: int | None
    computed_p50: int | None
    output_p50: int | None


@dataclass(frozen=True, slots=True)
class Tier:
    """One service class: its answered requests, how many are slow, its wait in the queue in ns."""

    tier: str
    n: int
    slow: int
    queue_p50: int | None
    queue_p95: int | None


@dataclass(frozen=True, slots=True)
class Worker:
    """How full one worker was. Shares are of its time."""

    worker: int
    idle_share: float | None
    waiting_share: float | None
    waiting_max: int | None
    running_max: int | None
    kv_free_min: int | None
    kv_total: int | None


@dataclass(frozen=True, slots=True)
class Preemptions:
    """Blocks that were taken away; `taker` took them most often, `taken` times."""

    n: int
    victims: int
    lost_tokens: int
    first_step: int | None
    last_step: int | None
    first_t: int | None
    worker: int | None
    taker: int | None
    taken: int | None


@dataclass(frozen=True, slots=True)
class Stall:
    """Stretches in which a process was held up, of one kind. Times in ns; the rest is of the longest."""

    kind: str
    n: int
    ns: int
    longest_ns: int | None
    longest_at: int | None
    source: str | None
    device: int | None
    detail: str | None
    rid: int | None


@dataclass(frozen=True, slots=True)
class Late:
    """A slow request whose answer lay ready for `ns`; meanwhile `others` got theirs, in the middle in `others_p50`."""

    rid: int
    request_id: str
    tenant: str
    ns: int
    others: int
    others_p50: int | None


@dataclass(frozen=True, slots=True)
class Loss:
    """A worker; `t` is when it was lost, None where it was not. `hit` attempts went with it, `again` were repeated."""

    worker: int
    t: int | None
    hit: int
    again: int
    spent_ns: int
    example: int | None


@dataclass(frozen=True, slots=True)
class Around:
    """Answered requests before and after an instant: how many, how long they waited (ns), how many are slow."""

    before: int
    after: int
    wait_before: int | None
    wait_after: int | None
    slow_before: int
    slow_after: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Attempts without an answer, of one state, code and reason. `told` were told when to come again, in ms."""

    status: str
    http_status: int | None
    reason: str
    n: int
    told: int
    retry_min: int | None
    retry_p50: int | None
    retry_max: int | None
    first_arrival: int
    last_arrival: int
    example: int


@dataclass(frozen=True)
class Evidence:
    """One run under one filter. `cells` are empty where nobody was slow, or nobody typical."""

    run: str
    state: str
    only: str
    config: Mapping[str, Any]
    states: Mapping[str, int]
    cohorts: Cohorts
    slow: Asked
    typical: Asked
    cells: tuple[Cell, ...]
    people: Mapping[int, Person]
    prompts: Mapping[int, tuple[int, int, int]]
    """rid -> worker, first and last step in which its prompt was computed; of those who are blamed most."""
    sizes: Sizes
    tiers: tuple[Tier, ...]
    workers: tuple[Worker, ...]
    preemptions: Preemptions
    stalls: Mapping[str, Stall]
    late: tuple[Late, ...]
    losses: tuple[Loss, ...]
    refusals: tuple[Refusal, ...]
    pulse: Pulse
    pinned: Pinned | None
    shift: Shift | None
    around: Mapping[int, Around]
    """What changed in the queue at the instants that matter: a lost worker, a cache that stopped to hit."""
    began: int
    """The first arrival, from which the console counts time."""
    incomplete: int
    drops: int
    left_out: int
    """Passes that the flight recorder left out on purpose."""

    def setting(self, section: str, key: str) -> Any:  # noqa: ANN401  # configurations hold what they like
        """A key of the recorded configuration; None where the run does not say."""
        return self.config.get(section, {}).get(key)

    def instant(self, t: int) -> str:
        """An instant as the console seeks it."""
        return f"{max(t - self.began, 0) / 1e9:.6f}s"

    def place(self, rid: int | None) -> str:
        """A request as the console seeks it: by its id, since a number may be another one's id; empty for nobody."""
        person = None if rid is None else self.people.get(rid)
        return "" if rid is None else f"req:{(person.request_id if person else '') or rid}"


class _Ask:
    """Questions about one run, on one cursor, about its cohorts."""

    def __init__(self, session: Session, cursor: "duckdb.DuckDBPyConnection", cohorts: Cohorts) -> None:
        self._ask = partial(session.ask, cursor=cursor)
        self._cohorts = {name: value for name, value in cohorts.params.items() if name in {"measure", "edge", "at"}}
        self._both = cohorts.params

    def table(self, name: str, **params: Any) -> pa.Table:  # noqa: ANN401  # whatever DuckDB takes
        return self._ask(f"explain_{name}", **params)

    def all(self, kind: type[R], name: str, **params: object) -> tuple[R, ...]:
        """Rows as values of `kind`, whose fields are the columns."""
        return tuple(kind(**row) for row in rows(self.table(name, **params)))

    def of_slow(self, kind: type[R], name: str, **params: object) -> tuple[R, ...]:
        """About the slow ones."""
        return self.all(kind, name, **self._cohorts, **params)

    def of_both(self, name: str) -> list[dict[str, Any]]:
        """About the slow and the typical ones."""
        return rows(self.table(name, **self._both))


def gather(session: Session, cursor: "duckdb.DuckDBPyConnection", only: str = "", slow: Slow | None = None) -> Evidence:
    """All evidence about the requests that the cursor sees. Without `slow`, it goes by how many were answered."""
    cohorts = _cohorts(session, cursor, slow)
    ask = _Ask(session, cursor, cohorts)
    asked = {row["cohort"]: Asked(**row) for row in ask.of_both("cohorts")}
    ours, theirs = asked.get("slow", NOBODY), asked.get("typical", NOBODY)
    cells = _cells(ask, ours, theirs) if ours.n and theirs.n else ()
    losses, shift, refusals = ask.all(Loss, "losses"), _shift(ask), ask.all(Refusal, "refusals")
    lost = ask.all(Preemptions, "preemptions")[0]
    examples = [lost.taker, *(one.example for one in losses), *(one.example for one in refusals)]
    examples += [shift.rid] if shift else []
    instants = {loss.t for loss in losses if loss.t is not None} | ({shift.t} if shift else set())
    account = rows(session.ask("recorder_health", cursor=cursor))[0]
    return Evidence(
        run=session.name,
        state=run_state(session.path),
        only=only,
        config=session.tables.info.config,
        states={str(row["status"]): int(str(row["n"])) for row in rows(session.ask("states", cursor=cursor))},
        cohorts=cohorts,
        slow=ours,
        typical=theirs,
        cells=cells,
        people=_people(ask, [*(cell.culprit for cell in cells), *examples]),
        prompts=_prompts(ask, cells),
        sizes=ask.all(Sizes, "sizes")[0],
        tiers=ask.of_slow(Tier, "tiers"),
        workers=ask.all(Worker, "engine"),
        preemptions=lost,
        stalls={stall.kind: stall for stall in ask.all(Stall, "stalls")},
        late=ask.of_slow(Late, "returns"),
        losses=losses,
        refusals=refusals,
        pulse=pulse(_latencies(session, cursor), _counted(refusals)),
        pinned=_pinned(ask),
        shift=shift,
        around={t: ask.of_slow(Around, "around", t=t)[0] for t in sorted(instants)},
        began=int(str(rows(session.ask("timeline_extent"))[0]["low"])),
        incomplete=int(str(rows(session.ask("incomplete", cursor=cursor))[0]["n"])),
        drops=int(str(account["drops"])),
        left_out=session.tables.left_out.passes,
    )


def _cohorts(session: Session, cursor: "duckdb.DuckDBPyConnection", slow: Slow | None) -> Cohorts:
    found = read_cohorts(session, slow or Slow(), cursor)
    if slow is None and found.n >= _MANY:
        return read_cohorts(session, replace(Slow(), percentile=type(Slow().percentile)(99)), cursor)
    return found


def _cells(ask: _Ask, slow: Asked, typical: Asked) -> tuple[Cell, ...]:
    """The rows of both cohorts, joined and split."""
    found: dict[tuple[str, str, int | None], Cell] = {}
    for row in ask.of_both("cells"):
        key = row["cause"], row["root"], row["culprit"]
        cell = found.get(key, Cell(*key, 0, 0))
        if row["cohort"] == "slow":
            cell = replace(cell, slow_ns=row["ns"], victims=row["victims"])
        else:
            cell = replace(cell, typical_ns=row["ns"])
        found[key] = replace(cell, measured=cell.measured and row["measured"])
    return tuple(split(found.values(), slow, typical))


def _people(ask: _Ask, wanted: Iterable[int | None]) -> dict[int, Person]:
    rids = sorted({rid for rid in wanted if rid is not None})
    return {person.rid: person for person in ask.all(Person, "people", rids=rids)}


def _prompts(ask: _Ask, cells: Iterable[Cell], most: int = 50) -> dict[int, tuple[int, int, int]]:
    blamed = sorted((cell for cell in cells if cell.culprit is not None), key=lambda cell: -cell.slow_ns)
    rids = sorted({cell.culprit for cell in blamed[:most] if cell.culprit is not None})
    found: list[dict[str, Any]] = rows(ask.table("steps", rids=rids))
    return {row["rid"]: (row["worker"], row["first_step"], row["last_step"]) for row in found}


def _shift(ask: _Ask) -> Shift | None:
    found = ask.table("prefixes")
    columns = (_ints(found, name) for name in ("arrival", "rid", "prompt_tokens", "cached_tokens"))
    return hits_lost(*columns)


def _pinned(ask: _Ask) -> Pinned | None:
    found = ask.table("arrivals")
    return pinned(_ints(found, "arrival"), _ints(found, "ended", _STILL_WAITS))


def _latencies(session: Session, cursor: "duckdb.DuckDBPyConnection") -> "np.typing.NDArray[np.int64]":
    return _ints(
        session.ask("answered_latencies", cursor=cursor).filter(pa.compute.field("e2e_ns").is_valid()), "e2e_ns"
    )


def _ints(table: pa.Table, name: str, absent: int = 0) -> "np.typing.NDArray[np.int64]":
    column: np.typing.NDArray[np.int64] = table[name].cast(pa.int64()).fill_null(absent).to_numpy()
    return column


def _counted(refusals: Sequence[Refusal]) -> Refusals:
    chosen = [refusal for refusal in refusals if refusal.http_status in _TOLD_WHEN]
    return Refusals(0, sum(refusal.n for refusal in chosen), sum(refusal.told for refusal in chosen))
