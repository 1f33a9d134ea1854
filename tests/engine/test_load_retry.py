"""Retries of a client: the server's instant where clocks agree, back-off else, and a budget for all (SPEC A8, B2)."""

import asyncio
import time

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from engine.load.client import Outcome, drive
from engine.load.retry import Again, Refusal, Replicas, RetryBudget, Retrying, decide
from engine.load.workload import Arrival
from tests.engine.served import DEADLINE_S

MS = 1_000_000


def ask(
    refusal: Refusal, retries: int = 0, limit: int = 9, left_ms: int | None = None, draw: float = 0.5, reserve: int = 1
) -> Again:
    left_ns = None if left_ms is None else left_ms * MS
    budget = RetryBudget(0.0, reserve)
    return decide(refusal, Retrying(limit), retries, left_ns=left_ns, budget=budget, draw=draw)


def test_the_instant_given_is_honoured_where_clocks_agree() -> None:
    """SPEC B2: trusted only within 2 s."""
    assert ask(Refusal(429, 100.0, 740, 102.0)).wait_ns == 740 * MS
    assert ask(Refusal(429, 100.0, 740, 102.1)).wait_ns == 100 * MS
    assert ask(Refusal(429, 100.0, 740)).wait_ns == 100 * MS


@given(st.integers(0, 20), st.floats(0, 1, exclude_max=True))
def test_else_it_backs_off_by_doubling_with_jitter(retries: int, draw: float) -> None:
    """SPEC B2: 100 ms * 2^n * U(0.5, 1.5)."""
    wait = ask(Refusal(None, 0.0), retries, limit=99, draw=draw).wait_ns
    assert wait is not None
    assert 50 * MS * 2**retries <= wait <= 150 * MS * 2**retries


@pytest.mark.parametrize(
    ("refusal", "more", "reason"),
    [
        (Refusal(400, 0.0), {}, ""),
        (Refusal(504, 0.0), {}, ""),
        (Refusal(529, 0.0), {"retries": 9}, "after 9 retries"),
        (Refusal(529, 0.0, 500, 0.0), {"left_ms": 500}, "the deadline is before"),
        (Refusal(529, 0.0), {"reserve": 0}, "budget is used up"),
    ],
)
def test_when_it_gives_up(refusal: Refusal, more: dict[str, int], reason: str) -> None:
    again = ask(refusal, **more)
    assert again.wait_ns is None
    assert reason in again.reason


@given(st.lists(st.booleans(), max_size=200), st.sampled_from([0.0, 0.1, 0.5]))
def test_the_budget_bounds_the_retries_of_all(script: list[bool], share: float) -> None:
    """SPEC A8: whatever fails, retries are at most a share of what was sent, and a few."""
    budget, sent, retried = RetryBudget(share), 0, 0
    for is_new in script:
        if is_new:
            budget.sent()
            sent += 1
        else:
            retried += budget.take()
        assert retried <= share * sent + 3 + 1e-9


async def against(failures: int, retry: Retrying, arrivals: list[Arrival], told: dict[str, str]) -> list[Outcome]:
    """A server that refuses each request `failures` times."""
    seen: dict[str, int] = {}

    async def answer(request: web.Request) -> web.Response:
        name = request.headers["X-Request-Id"]
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= failures:
            headers = {**told, "X-Server-Time": f"{time.time():.3f}"}
            return web.Response(status=529, text='{"error": {"message": "full"}}', headers=headers)
        return web.Response(text='data: {"choices": [{"finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')

    app = web.Application()
    app.router.add_post("/v1/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        sending = drive([site.name], "m", arrivals, None, lambda outcomes: None, retry=retry)
        return await asyncio.wait_for(sending, DEADLINE_S)
    finally:
        await runner.cleanup()


async def test_a_refused_request_is_sent_again_when_it_was_told() -> None:
    asked = [Arrival(arrival_s=0, prompt="x", id="a", deadline_ms=60_000)]
    (outcome,) = await against(2, Retrying(limit=3), asked, {"Retry-After-Ms": "30"})
    assert (outcome.status, outcome.retries, outcome.error) == ("ok", 2, "")
    assert outcome.sent is not None
    assert outcome.first_token is not None
    assert outcome.first_token - outcome.sent >= 60 * MS


async def test_one_that_is_given_up_says_why() -> None:
    asked = [Arrival(arrival_s=0, prompt="x", id="a")]
    (outcome,) = await against(9, Retrying(limit=1), asked, {"Retry-After-Ms": "1"})
    assert (outcome.status, outcome.retries, outcome.http_status) == ("rejected", 1, 529)
    assert outcome.error == "full (given up after 1 retries)"


async def test_without_retries_nothing_is_sent_twice() -> None:
    asked = [Arrival(arrival_s=0, prompt="x", id="a")]
    (outcome,) = await against(1, Retrying(), asked, {})
    assert (outcome.status, outcome.retries, outcome.error) == ("rejected", 0, "full")


def test_whoever_is_refused_goes_to_the_others_and_then_to_who_may_be_asked_first() -> None:
    """SPEC B2: at once to another replica; when all have refused, to the one whose wait is over first."""
    replicas, budget, now = Replicas(3, first=1), RetryBudget(0.0, 9), 5 * MS
    asked, waits = [replicas.at], []
    for wait_ms in (300, 40, 200, 100):
        refusal = Refusal(529, 0.0, wait_ms, 0.0)
        again = decide(refusal, Retrying(9), 0, left_ns=None, budget=budget, draw=0.5, replicas=replicas, now=now)
        assert again.wait_ns is not None
        now += again.wait_ns
        asked.append(replicas.at)
        waits.append(again.wait_ns // MS)
    assert asked == [1, 2, 0, 2, 2]
    assert waits == [0, 0, 40, 100]


async def test_of_several_servers_one_that_refuses_is_left_for_another() -> None:
    """SPEC B2. Each is the first for its share; headers tell the other that it is another attempt, and of what."""
    told: list[tuple[str, str, str | None]] = []

    def answering(name: str, status: int) -> web.Application:
        async def answer(request: web.Request) -> web.Response:
            told.append((name, request.headers["X-Request-Id"], request.headers.get("X-Attempt")))
            if status != 200:
                headers = {"Retry-After-Ms": "60000", "X-Server-Time": f"{time.time():.3f}"}
                return web.Response(status=status, text='{"error": {"message": "full"}}', headers=headers)
            return web.Response(text='data: {"choices": [{"finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')

        app = web.Application()
        app.router.add_post("/v1/completions", answer)
        return app

    runners = [web.AppRunner(answering(name, status)) for name, status in (("full", 529), ("free", 200))]
    sites = []
    for runner in runners:
        await runner.setup()
        sites.append(web.TCPSite(runner, "127.0.0.1", 0))
        await sites[-1].start()
    asked = [Arrival(arrival_s=0, prompt="x", id=name) for name in "ab"]
    try:
        sending = drive([site.name for site in sites], "m", asked, None, lambda outcomes: None, retry=Retrying(1))
        outcomes = await asyncio.wait_for(sending, DEADLINE_S)
    finally:
        for runner in runners:
            await runner.cleanup()
    assert [(outcome.status, outcome.retries) for outcome in outcomes] == [("ok", 1), ("ok", 0)]
    assert {outcome.url for outcome in outcomes} == {sites[1].name}
    assert sorted(told) == [("free", "a", "2"), ("free", "b", None), ("full", "a", None)]


async def test_all_requests_share_the_budget() -> None:
    asked = [Arrival(arrival_s=0, prompt="x", id=f"r{i}") for i in range(20)]
    outcomes = await against(1, Retrying(limit=5, budget_share=0.1), asked, {"Retry-After-Ms": "1"})
    assert sum(outcome.retries for outcome in outcomes) == sum(outcome.status == "ok" for outcome in outcomes)
    assert 3 <= sum(outcome.retries for outcome in outcomes) <= 5
