"""Delays of known size, planted in a real engine, are each found under their own cause, in their own request (SPEC F1).

Front end, worker, recorder, rings and sockets are the real ones. The delays come from outside: a worker whose
scheduler and executor are wrapped, a tokenizer that takes its time, a signal that holds an answer back.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pyarrow.compute as pc
import pytest
from aiohttp import web

from engine.api.app import Api, Tokenizer, build_app
from engine.api.attempt import Detokenizer
from engine.api.door import Door, listen
from engine.config import Config
from engine.model.source import open_model
from engine.supervisor import Engine, EngineOptions
from recorder.attribution import attribute
from recorder.check import check
from recorder.tables import RunTables, open_tables
from tests.engine.planted_worker import Delay

MS = 300
NS = MS * 1_000_000

PLANTED = {
    "plan": (Delay("plan", 2, 2, MS), "HOST_SCHED"),
    "plan of its first step": (Delay("plan", 3, 1, MS), "HOST_SCHED"),
    "prefill": (Delay("execute", 4, 1, MS), "PREFILL"),
    "decode": (Delay("execute", 5, 3, MS), "DECODE"),
    "commit": (Delay("commit", 6, 2, MS), "HOST_POST"),
    "commit of its last step": (Delay("commit", 7, 4, MS), "HOST_POST"),
}
"""Requests of four steps: a prefill, which gives the first token, and three decodes."""
IN_FRONT = {"slow to tokenise": (8, "INGRESS"), "slow to write": (9, "RETURN")}
SLOW_STEP, BEHIND_IT = 11, 12

EXPECTED = {name: (delay.rid, cause) for name, (delay, cause) in PLANTED.items()} | IN_FRONT


class SlowTokenizer:
    """The real one, with a text that takes long."""

    def __init__(self, inner: Tokenizer) -> None:
        self._inner = inner

    def encode(self, text: str) -> list[int]:
        if text == "slow to tokenise":
            time.sleep(MS / 1000)
        return self._inner.encode(text)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        return self._inner.encode_chat(messages)

    def detokenizer(self) -> Detokenizer:
        return self._inner.detokenizer()


async def _write_late(request: web.Request, response: web.StreamResponse) -> None:
    if request.headers.get("X-Request-Id") == "slow to write":
        await asyncio.sleep(MS / 1000)


async def _ask(session: aiohttp.ClientSession, name: str) -> None:
    body = {"prompt": name, "max_tokens": 4, "temperature": 0}
    async with session.post("/v1/completions", json=body, headers={"X-Request-Id": name}) as response:
        assert response.status == 200


async def _ask_behind_a_slow_step(session: aiohttp.ClientSession) -> None:
    """The second is sent 200 ms after the first token of the first, and so well inside its slow second step."""
    body = {"prompt": "x", "max_tokens": 4, "stream": True}
    async with session.post("/v1/completions", json=body, headers={"X-Request-Id": "slow step"}) as response:
        await response.content.readline()
        await asyncio.sleep(0.2)
        await _ask(session, "behind it")
        await response.read()


async def _requests(url: str) -> None:
    """One after the other, so that request n has rid n."""
    async with aiohttp.ClientSession(url) as session:
        for name in ("plain", *EXPECTED, "plain again"):
            await _ask(session, name)
        await _ask_behind_a_slow_step(session)


async def _record(runs: Path) -> Path:
    delays = [delay for delay, _ in PLANTED.values()] + [Delay("execute", SLOW_STEP, 2, 4 * MS)]
    source = open_model("tiny", "dummy")
    command = (sys.executable, "-m", "tests.engine.planted_worker", msgspec.json.encode(delays).decode())
    options = EngineOptions(source, "tiny", Config(), runs, "dummy", "cpu", worker_command=command)
    engine = Engine(options)
    app = build_app(Api(engine.gateway, SlowTokenizer(source.tokenizer), "tiny", source.spec.vocab), None, 1 << 20)
    app.on_response_prepare.append(_write_late)
    with listen("127.0.0.1", 0) as sock:
        door = Door(app, sock)
        await door.open()
        await engine.start()
        await _requests(door.url)
        await door.close()
    assert await engine.leave()
    assert engine.run is not None
    return engine.run


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> RunTables:
    return open_tables(asyncio.run(_record(tmp_path_factory.mktemp("planted"))))


@pytest.fixture(scope="module")
def causes(tables: RunTables) -> dict[tuple[int, str], int]:
    summed = attribute(tables).group_by(["rid", "cause"]).aggregate([("ns", "sum")])
    return {(row["rid"], row["cause"]): row["ns_sum"] for row in summed.to_pylist()}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_planted_delay_is_found_in_its_request_under_its_cause(causes: dict[tuple[int, str], int], name: str) -> None:
    rid, cause = EXPECTED[name]
    assert causes[rid, cause] >= NS
    others = {named: ns for (of, named), ns in causes.items() if of == rid and named != cause}
    assert max(others.values()) < NS, "the delay is charged once"


@pytest.mark.parametrize("cause", sorted({cause for _, cause in EXPECTED.values()}))
def test_and_in_no_other_request(causes: dict[tuple[int, str], int], cause: str) -> None:
    planted = {rid for rid, named in EXPECTED.values() if named == cause} | {SLOW_STEP, BEHIND_IT}
    assert sum(ns for (rid, named), ns in causes.items() if named == cause and rid not in planted) < NS


def test_a_step_under_way_when_a_request_arrives_is_named(causes: dict[tuple[int, str], int]) -> None:
    """The slow step takes so long that the second request, however late it is sent, meets much of it."""
    assert causes[SLOW_STEP, "DECODE"] >= 4 * NS
    assert causes[BEHIND_IT, "STEP_IN_FLIGHT"] >= NS
    assert all(ns < NS for (rid, cause), ns in causes.items() if cause == "STEP_IN_FLIGHT" and rid != BEHIND_IT)


def test_the_causes_of_each_request_sum_to_its_end_to_end_time(
    tables: RunTables, causes: dict[tuple[int, str], int]
) -> None:
    requests = tables.table("requests")
    assert pc.unique(requests["status"]).to_pylist() == ["ok"]
    for row in requests.to_pylist():
        total = sum(ns for (rid, _), ns in causes.items() if rid == row["rid"])
        assert total == row["returned"] - row["arrival"]
        assert causes.get((row["rid"], "UNNAMED"), 0) < NS


def test_the_run_passes_its_checks(tables: RunTables) -> None:
    assert [result for result in check(tables) if not result.ok] == []
