"""The dynamic batcher: when a batch leaves and why; what becomes of those whose deadline passes (SPEC A1 to A3, D4)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import Config, SchedulerConfig
from engine.scheduling.rules import Queue, Verdict, start_rule
from engine.simulate.clock import Delays
from engine.simulate.cost import fixed_time
from engine.simulate.front import Arrival, Outcome
from engine.simulate.stepped import simulate
from recorder.check import check
from recorder.tables import open_tables
from recorder.words import EventKind, Reason, Status
from tests.engine.driving import Driver

MS = 1_000_000
NOTHING = Delays(ingress_ns=0, plan_ns=0, commit_ns=0, link_ns=0, write_ns=0)


def config(**scheduler: Any) -> Config:  # noqa: ANN401
    """Batches of 4, 10 ms of waiting."""
    return Config(
        scheduler=SchedulerConfig(
            policy="dynamic", max_batch_size=4, **{"max_queue_delay_microseconds": 10_000, **scheduler}
        )
    )


def ask(queue: Queue, **scheduler: Any) -> Verdict:  # noqa: ANN401
    return start_rule(config(**scheduler).scheduler)(queue)


def queue(
    now_ms: float, waiting: int, start_by_ms: float | None = None, gap_ms: float = 0, unfinished: int = 0
) -> Queue:
    """The oldest came at 0; memory holds any batch."""
    start_by = None if start_by_ms is None else round(start_by_ms * MS)
    return Queue(
        round(now_ms * MS),
        waiting,
        0,
        unfinished,
        lambda size: min(size, waiting),
        lambda size: start_by,
        start_by is not None,
        round(gap_ms * MS),
    )


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (queue(5, 2, unfinished=1), Verdict(reason=Reason.WORKER_BUSY)),
        (queue(5, 2), Verdict(reason=Reason.BATCH_TIMER, wake_at=10 * MS)),
        (queue(0, 4), Verdict(4, reason=Reason.BATCH_FULL)),
        (queue(0, 9), Verdict(4, reason=Reason.BATCH_FULL)),
        (queue(10, 2), Verdict(2, reason=Reason.BATCH_TIMER)),
        (queue(5, 2, start_by_ms=7), Verdict(reason=Reason.BATCH_TIMER, wake_at=7 * MS)),
        (queue(7, 2, start_by_ms=7), Verdict(2, reason=Reason.DEADLINE)),
        (queue(5, 2, start_by_ms=90), Verdict(reason=Reason.BATCH_TIMER, wake_at=10 * MS)),
    ],
)
def test_a_batch_leaves_full_in_time_or_for_a_deadline(asked: Queue, verdict: Verdict) -> None:
    """SPEC A1, A2."""
    assert ask(asked) == verdict


@pytest.mark.parametrize(("waiting", "leave"), [(1, 0), (2, 2), (3, 3), (4, 4), (7, 4)])
def test_the_largest_preferred_size_that_is_reached_leaves(waiting: int, leave: int) -> None:
    assert ask(queue(0, waiting), preferred_batch_size=(2, 3, 99)).start == leave


@pytest.mark.parametrize(
    ("asked", "wakes_ms"),
    [
        (queue(0, 2, start_by_ms=900, gap_ms=1), 4),
        (queue(0, 3, start_by_ms=900, gap_ms=1), 2),
        (queue(0, 2, start_by_ms=900, gap_ms=4), 10),
        (queue(0, 2, gap_ms=50), 10),
    ],
)
def test_the_wait_fits_the_load(asked: Queue, wakes_ms: int) -> None:
    """SPEC D4: short at peak; all of it for offline work, where nobody has a deadline."""
    assert ask(asked, adaptive_wait=True).wake_at == wakes_ms * MS


def test_at_low_load_nobody_with_a_deadline_waits() -> None:
    """SPEC D4: the batch would not fill in time."""
    assert ask(queue(0, 2, start_by_ms=900, gap_ms=50), adaptive_wait=True).start == 2


@given(st.integers(1, 9), st.floats(0, 100), st.one_of(st.none(), st.floats(0, 100)), st.floats(0, 100), st.booleans())
def test_nobody_waits_longer_than_the_delay(
    waiting: int, now: float, start_by: float | None, gap: float, adaptive: bool
) -> None:
    """SPEC A2: whatever else holds, an idle worker starts what has waited enough; it is always told when to wake."""
    verdict = ask(queue(now, waiting, start_by, gap), adaptive_wait=adaptive)
    if now >= 10 or waiting >= 4:
        assert verdict.start
    if not verdict.start:
        assert verdict.wake_at is not None
        assert now * MS - 1 <= verdict.wake_at <= 10 * MS


# -- in virtual time ---------------------------------------------------------------------------------------------------


def batches(arrivals: Sequence[tuple[int, int | None]], run: Path | None = None, **scheduler: Any) -> list[Outcome]:  # noqa: ANN401
    """Arrival and deadline in ms, one step of 100 ms each."""
    asked = [
        Arrival(arrival=t * MS, prompt_tokens=1, max_tokens=1, deadline=None if due is None else due * MS)
        for t, due in arrivals
    ]
    cost = fixed_time(100 * MS)
    return simulate(config(**scheduler), asked, cost, num_blocks=100, max_model_len=100, delays=NOTHING, run=run)


def started_ms(outcomes: list[Outcome]) -> list[float | None]:
    return [(o.end.first_scheduled / MS if o.end.first_scheduled is not None else None) for o in outcomes if o.end]


def test_the_seeds_timelines() -> None:
    """SPEC A3."""
    assert started_ms(batches([(0, None), (7, None)])) == [10, 10]
    assert started_ms(batches([(0, None)] * 4 + [(1, None)])) == [0, 0, 0, 0, 100]


def test_a_deadline_in_danger_lets_the_batch_leave() -> None:
    """SPEC A1: with 100 ms of execution, who is due at 105 can wait until 5."""
    assert started_ms(batches([(0, None), (0, 105)])) == [5, 5]


def test_who_is_overdue_in_the_queue_ends_there(tmp_path: Path) -> None:
    """SPEC A6: the worker is busy until 100, and E was due at 50; the pass that finds it ends it as expired."""
    run = tmp_path / "run"
    outcomes = batches([(0, None)] * 4 + [(1, 50), (2, 400)], run)
    assert [o.status for o in outcomes] == [Status.OK] * 4 + [Status.EXPIRED, Status.OK]
    assert outcomes[4].end
    assert (outcomes[4].end.ended, outcomes[4].end.first_scheduled) == (100 * MS, None)
    tables = open_tables(run)
    assert [made for made in check(tables) if not made.ok] == []
    events = tables.table("events").to_pylist()
    assert [row["rid"] for row in events if row["kind"] == EventKind.EXPIRED] == [5]
    assert {row["reason"] for row in events if row["kind"] == EventKind.SCHEDULED} == {"BATCH_FULL", "BATCH_TIMER"}
    row = tables.table("requests").to_pylist()[4]
    assert (row["status"], row["deadline"], row["http_status"]) == ("expired", 50 * MS, 504)


def test_an_idle_worker_wakes_for_a_deadline() -> None:
    """Nobody knows yet how long a batch takes: so it is the deadline itself that ends the wait."""
    drive = Driver(config(max_queue_delay_microseconds=50), 10)
    drive.add(1, 1, 1, deadline=20_000)
    assert drive.tick().wake_at == 20_000
    drive.tick()
    assert drive.ends[1].reason == "expired"
    assert [span.end for span in drive.ends[1].spans] == [20_000]


def test_by_configuration_who_is_overdue_goes_last_instead() -> None:
    outcomes = batches(
        [(0, None)] * 4 + [(1, 50), *[(2, None)] * 4], timeout_action="delay", default_timeout_microseconds=0
    )
    assert [o.status for o in outcomes] == [Status.OK] * 9
    assert started_ms(outcomes)[4:] == [200, 100, 100, 100, 100]


def test_a_default_deadline_runs_from_the_arrival() -> None:
    outcomes = batches([(0, None)] * 4 + [(1, None), (1, 900)], default_timeout_microseconds=50_000)
    assert [o.status for o in outcomes][4:] == [Status.EXPIRED, Status.OK]
