"""The gateway over several workers that are only links: hand-backs, stale results, and who is not tried again."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.api.attempt import Attempt, Submission
from engine.api.errors import ApiError
from engine.api.fleet import Fleet
from engine.api.gateway import Gateway
from engine.api.ledger import FrontLedger
from engine.config import Config, RouterConfig, SchedulerConfig
from engine.messages import (
    Cancel,
    Finished,
    Heartbeat,
    Ready,
    Sampling,
    Starting,
    StepOutput,
    Submit,
    ToWorker,
)
from recorder.words import EventKind, Reason, Status


class Letters:
    """Token n is the n-th letter."""

    def push(self, tokens: Sequence[int]) -> str:
        return "".join(chr(97 + token) for token in tokens)

    def flush(self) -> str:
        return ""


class Rows:
    """A producer that keeps rows by table."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, object]]] = {"requests": [], "events": []}

    def append(self, table: str, *values: object) -> bool:
        return True

    def appender(self, table: str) -> Callable[..., bool]:
        return lambda *values: True

    def row(self, table: str, **columns: object) -> bool:
        self.tables.setdefault(table, []).append(columns)
        return True

    def close(self) -> None:
        """Nothing to hand over."""


class Line:
    """The way to a worker."""

    def __init__(self) -> None:
        self.sent: list[ToWorker] = []

    def send(self, message: ToWorker) -> None:
        self.sent.append(message)

    @property
    def last(self) -> Submit:
        return [message for message in self.sent if isinstance(message, Submit)][-1]


class House:
    """A gateway and what is around it. `step` lets a worker tell of a step."""

    def __init__(self, workers: int = 2, router: RouterConfig | None = None, **scheduler: int) -> None:
        config = Config(
            router=router or RouterConfig(),
            scheduler=SchedulerConfig(**scheduler),  # type: ignore[arg-type]
        )
        self.rows, self.lines = Rows(), [Line() for _ in range(workers)]
        self.fleet = Fleet(config, workers)
        self.gateway = Gateway(FrontLedger(self.rows), Letters, config, self.fleet)
        self._steps = 0
        for number, line in enumerate(self.lines):
            self.fleet.connect(number, line)
            self.gateway.on_message(Ready(number, "cpu", "fp32", 100, 16, 1000, 0.1), 0)

    def submit(self, *, stream: bool = False, **terms: object) -> Attempt:
        asked = Submission(
            request_id="r",
            arrival=1,
            prompt=[0] * 4,
            max_tokens=9,
            sampling=Sampling(),
            stop=(),
            stream=stream,
            model="m",
        )
        return self.gateway.submit(replace(asked, **terms))  # type: ignore[arg-type]

    def step(self, worker: int, tokens: Sequence[tuple[int, int]] = (), finished: Sequence[Finished] = ()) -> None:
        self._steps += 1
        output = StepOutput(worker, self._steps, 5, list(tokens), list(finished), [], 0, 0, 0, 0)
        self.gateway.on_message(output, 10)

    def starting(self, worker: int, *rids: int) -> None:
        self.gateway.on_message(Starting(worker, 5, list(rids)), 10)

    def statuses(self) -> list[tuple[object, ...]]:
        """rid, attempt, retry_of, worker and status of each row of `requests`, in the order of writing."""
        names = ("rid", "attempt", "retry_of", "worker", "status")
        return [tuple(row[name] for name in names) for row in self.rows.tables["requests"]]

    def kinds(self) -> list[tuple[object, object, object]]:
        return [(row["kind"], row["worker"], row["rid"]) for row in self.rows.tables["events"]]


def end(rid: int, reason: str = "length") -> Finished:
    return Finished(rid, reason, 2, 3, 4, 5, 9, 0, 0, 0, 1, 5)


async def whole(attempt: Attempt) -> str:
    """The text until its end; raises what it failed with."""
    text = ""
    while True:
        batch = await attempt.take()
        text += batch.text
        if batch.finish_reason:
            return text


async def test_an_answer_nobody_has_seen_begins_anew_elsewhere_and_ends_once() -> None:
    house = House()
    attempt = house.submit()
    house.step(0, [(1, 0), (1, 1)])
    house.gateway.on_gone(0, died=True)
    assert house.lines[1].last == replace_submit(house.lines[0].last, rid=2, attempt=2)
    house.step(0, [(1, 7)], [end(1)])  # what the dead worker had sent before
    house.step(1, [(2, 0), (2, 1), (2, 2)], [end(2)])
    assert await whole(attempt) == "abc"
    assert house.statuses() == [
        (1, 1, None, 0, Status.OPEN),
        (1, 1, None, 0, Status.FAILED),
        (2, 2, 1, 1, Status.OPEN),
    ]
    assert house.kinds()[2:] == [
        (EventKind.ROUTED, 0, 1),
        (EventKind.WORKER_LOST, 0, None),
        (EventKind.FAILED, 0, 1),
        (EventKind.ROUTED, 1, 2),
    ]
    assert house.rows.tables["events"][-1]["reason"] is Reason.HANDED_BACK


def replace_submit(message: Submit, **changes: int) -> Submit:
    known = {name: getattr(message, name) for name in message.__struct_fields__}
    return Submit(**{**known, **changes})


async def test_a_stream_goes_on_after_the_tokens_it_has() -> None:
    house = House()
    attempt = house.submit(stream=True)
    house.step(0, [(1, 3), (1, 4)])
    house.gateway.on_gone(0, died=True)
    sent = house.lines[1].last
    assert (sent.prompt, sent.max_tokens, sent.attempt) == ([0, 0, 0, 0, 3, 4], 7, 2)
    house.step(1, [(2, 5)], [end(2)])
    assert await whole(attempt) == "def"
    assert attempt.output_tokens == 3, "usage counts what was delivered (SPEC C9)"


async def test_a_stream_that_has_its_stop_string_only_asks_for_an_end() -> None:
    house = House()
    attempt = house.submit(stream=True, stop=("b",))
    house.step(0, [(1, 0), (1, 1)])
    assert isinstance(house.lines[0].sent[-1], Cancel)
    house.gateway.on_gone(0, died=True)
    assert house.lines[1].last.max_tokens == 1
    house.step(1, [(2, 5)], [end(2)])
    assert await whole(attempt) == "a"


async def test_by_configuration_a_stream_ends_but_one_that_has_nothing_yet_does_not() -> None:
    house = House(router=RouterConfig(on_worker_lost="fail"))
    begun, elsewhere, fresh = (house.submit(stream=True, prompt=[0] * size) for size in (4, 40, 8))
    house.step(0, [(1, 0)])
    house.gateway.on_gone(0, died=True)
    with pytest.raises(ApiError, match="safe to send it again") as failed:
        await begun.take()
    assert (failed.value.status, failed.value.code) == (500, "worker_lost")
    assert (fresh.number, fresh.worker, fresh.failure, elsewhere.number) == (2, 1, None, 1)


async def test_who_ran_as_two_workers_were_lost_is_isolated_and_who_waited_is_not() -> None:
    """SPEC A7."""
    house = House(workers=3)
    suspect, bystander = house.submit(), house.submit(prompt=[0] * 40)
    assert (suspect.worker, bystander.worker) == (0, 1)
    waiting = house.submit(prompt=[0] * 3, arrival=2)
    house.gateway.on_gone(2, died=True)
    assert waiting.number == 2
    house.starting(0, suspect.rid)
    house.gateway.on_gone(0, died=True)
    assert (suspect.number, suspect.worker, suspect.losses) == (2, 1, 1)
    assert (waiting.worker, waiting.losses) == (1, 0)


async def test_a_request_isolated_by_its_second_loss_fails_with_a_reason() -> None:
    house = House(workers=3)
    suspect = house.submit()
    for _ in range(2):
        worker = suspect.worker
        house.starting(worker, suspect.rid)
        house.gateway.on_gone(worker, died=True)
    with pytest.raises(ApiError, match="it was running on 2 workers when they were lost") as failed:
        await suspect.take()
    assert failed.value.code == "isolated"
    assert suspect.failed_as is Status.FAILED


async def test_a_deadline_that_has_passed_is_no_reason_to_try_again() -> None:
    house = House()
    late = house.submit(deadline=2)
    house.gateway.on_gone(0, died=True)
    with pytest.raises(ApiError) as failed:
        await late.take()
    assert (failed.value.status, late.failed_as) == (504, Status.EXPIRED)


async def test_whose_client_has_left_is_not_tried_again() -> None:
    house = House()
    attempt = house.submit()
    house.gateway.client_left(attempt)
    house.gateway.on_gone(0, died=True)
    assert house.lines[1].sent == []
    assert house.statuses()[-1] == (1, 1, None, 0, Status.CANCELLED)


async def test_a_silent_worker_is_called_off_and_in_again_when_it_is_heard() -> None:
    house = House(router=RouterConfig(heartbeat_timeout_ms=1000))
    attempt = house.submit()
    house.gateway.on_message(Heartbeat(1, 0, 0, 0, 0), 2_000_000_000)
    house.gateway.take_out_silent(2_500_000_000)
    assert attempt.worker == 1
    assert house.lines[0].sent[-1] == Cancel(1)
    other = house.submit()
    assert other.worker == 1, "it is out"
    house.step(0, [(1, 5)], [end(1, "cancelled")])  # heard again, with a late result
    assert house.kinds()[-1] == (EventKind.WORKER_READY, 0, None)
    assert house.submit().worker == 0
    house.step(1, [(2, 1)], [end(2)])
    assert await whole(attempt) == "b"


async def test_a_hand_back_is_not_asked_for_admission_again() -> None:
    """Nor does it upset the gate that it comes back under another number."""
    house = House(max_queue_size=1)
    first, second = house.submit(), house.submit()
    assert (first.worker, second.worker) == (0, 1)
    house.gateway.on_gone(0, died=True)
    assert first.worker == 1
    house.starting(1, 2)
    house.step(1, [(2, 1)], [end(2)])
    house.starting(1, 3)
    house.step(1, [(3, 1)], [end(3)])
    assert [await whole(second), await whole(first)] == ["b", "b"]


async def test_settled_does_not_flicker_while_a_request_changes_hands() -> None:
    house = House()
    house.submit()
    settled = house.gateway._ledger.settled
    waiting = asyncio.ensure_future(settled.wait())
    await asyncio.sleep(0)
    house.gateway.on_gone(0, died=True)
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_nobody_to_route_to_is_told() -> None:
    house = House()
    for worker in (0, 1):
        house.gateway.on_gone(worker, died=True)
    with pytest.raises(ApiError) as closed:
        house.submit()
    assert closed.value.status == 503
