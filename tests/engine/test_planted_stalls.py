"""Stalls of the host, planted in a real engine, are each found under their own cause, in their own requests.

Front end, worker, recorder, rings and sockets are the real ones. The stalls come from outside: garbage that takes long
to die, a worker whose executor is wrapped, a tokenizer and a signal of the HTTP server that hold the event loop up.
"""

import asyncio
import gc
import sys
import time
from collections import Counter
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
from engine.stalls import WatchedLoop
from engine.supervisor import Engine, EngineOptions
from recorder.attribution import attribute
from recorder.check import check
from recorder.tables import RunTables, open_tables
from tests.engine.served import DEADLINE_S, until
from tests.engine.stalling_worker import Stall, collect_slowly

MS = 300
NS = MS * 1_000_000

NAMES = (
    "first of a shape",
    "plain",
    "collection in a prefill",
    "collection in a decode",
    "collection while tokenising",
    "collection on the way out",
    "slow to tokenise",
    "blocks the loop on its way out",
    "held up by a tokeniser",
    "slow to tokenise, again",
    "plain again",
)
RID = {name: rid for rid, name in enumerate(NAMES, 1)}
"""They are sent one after the other, but the last but one while the one before is in its last step."""

COLD_PASS = 58
"""A prompt of 200 tokens is computed in the first; this is the first decode on top of 256 tokens."""


class OddTokenizer:
    """The real one, with texts that take long, collect garbage, or hold the loop up for others."""

    def __init__(self, inner: Tokenizer, folder: Path) -> None:
        self._inner = inner
        self._folder = folder

    def encode(self, text: str) -> list[int]:
        if text == "slow to tokenise":
            time.sleep(MS / 1000)
        elif text == "collection while tokenising":
            collect_slowly(MS)
        elif text == "slow to tokenise, again":
            (self._folder / "tokenising").touch()
            until("the other's tokens have left the worker", (self._folder / "left").exists)
            time.sleep(2 * MS / 1000)
        return self._inner.encode(text)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        return self._inner.encode_chat(messages)

    def detokenizer(self) -> Detokenizer:
        return self._inner.detokenizer()


async def _hold_up(request: web.Request, response: web.StreamResponse) -> None:
    match request.headers.get("X-Request-Id"):
        case "collection on the way out":
            collect_slowly(MS)
        case "blocks the loop on its way out":
            time.sleep(MS / 1000)


async def _ask(session: aiohttp.ClientSession, name: str) -> None:
    cold = name == "first of a shape"
    body = {"prompt": [5] * 200 if cold else name, "max_tokens": COLD_PASS + 2 if cold else 4, "ignore_eos": True}
    async with session.post("/v1/completions", json=body, headers={"X-Request-Id": name}) as response:
        assert response.status == 200, await response.text()


async def _exists(path: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        await asyncio.sleep(0.01)


async def _requests(url: str, folder: Path) -> None:
    async with aiohttp.ClientSession(url) as session:
        for name in NAMES[:-3]:
            await _ask(session, name)
        victim = asyncio.ensure_future(_ask(session, "held up by a tokeniser"))
        await _exists(folder / "in its last step")
        await asyncio.gather(victim, _ask(session, "slow to tokenise, again"))
        await _ask(session, "plain again")


def _plans(folder: Path) -> list[Stall]:
    victim, tokenising = RID["held up by a tokeniser"], str(folder / "tokenising")
    return [
        Stall("sleep", RID["first of a shape"], COLD_PASS, MS),
        Stall("collect", RID["collection in a prefill"], 1, MS),
        Stall("collect", RID["collection in a decode"], 3, MS),
        Stall("wait", victim, 4, begun=str(folder / "in its last step"), go_on=tokenising, left=str(folder / "left")),
    ]


async def _record(folder: Path) -> Path:
    source = open_model("tiny", "dummy")
    command = (sys.executable, "-m", "tests.engine.stalling_worker", msgspec.json.encode(_plans(folder)).decode())
    options = EngineOptions(
        source, "tiny", Config(), folder / "runs", load_format="dummy", device="cpu", worker_command=command
    )
    engine = Engine(options)
    tokenizer = OddTokenizer(source.tokenizer, folder)
    app = build_app(Api(engine.gateway, tokenizer, "tiny", source.spec.vocab), None, 1 << 20)
    app.on_response_prepare.append(_hold_up)
    with listen("127.0.0.1", 0) as sock:
        door = Door(app, sock)
        await door.open()
        await engine.start()
        await _requests(door.url, folder)
        await door.close()
    assert await engine.leave()
    assert engine.run is not None
    return engine.run


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> RunTables:
    gc.collect()
    gc.freeze()  # as `serve` does: the collections of this process are to be short but for the planted ones
    try:
        with asyncio.Runner(loop_factory=WatchedLoop) as runner:
            return open_tables(runner.run(_record(tmp_path_factory.mktemp("stalls"))))
    finally:
        gc.unfreeze()


@pytest.fixture(scope="module")
def causes(tables: RunTables) -> Counter[tuple[str, str]]:
    names = {rid: name for name, rid in RID.items()}
    found: Counter[tuple[str, str]] = Counter()
    for row in attribute(tables).to_pylist():
        found[names[row["rid"]], row["cause"]] += row["ns"]
    return found


EXPECTED = {
    "collection in a prefill": "HOST_GC",
    "collection in a decode": "HOST_GC",
    "collection while tokenising": "HOST_GC",
    "collection on the way out": "HOST_GC",
    "slow to tokenise": "INGRESS",
    "blocks the loop on its way out": "HOST_LOOP",
    "held up by a tokeniser": "HOST_LOOP",
    "slow to tokenise, again": "INGRESS",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_planted_stall_is_found_in_its_request_under_its_cause(causes: Counter[tuple[str, str]], name: str) -> None:
    assert causes[name, EXPECTED[name]] >= NS


@pytest.mark.parametrize("name", [name for name in NAMES[1:] if name != "held up by a tokeniser"])
def test_and_under_no_other(causes: Counter[tuple[str, str]], name: str) -> None:
    """The victim is left out: it waited in its last step until the other was being tokenised."""
    others = {cause: ns for (of, cause), ns in causes.items() if of == name and cause != EXPECTED.get(name)}
    assert max(others.values()) < NS, others


def test_a_tokeniser_that_blocks_the_loop_is_to_blame_for_exactly_what_it_delayed(tables: RunTables) -> None:
    victim, culprit = RID["held up by a tokeniser"], RID["slow to tokenise, again"]
    (tokenised,) = [row for row in _stalls(tables, "tokenise") if row["rid"] == culprit]
    (last,) = [row["step"] for row in _steps_of(tables, victim)][-1:]
    (sent,) = [row["t_sent"] for row in tables.table("deliveries").to_pylist() if row["step"] == last]
    begin, end = max(sent, tokenised["t_start"]), tokenised["t_end"]
    collected = sum(_overlap(row, begin, end) for row in _stalls(tables, "gc") if row["source"] == "frontend")
    blamed = [row for row in attribute(tables).to_pylist() if (row["rid"], row["culprit"]) == (victim, culprit)]
    assert [(row["cause"], row["ns"], row["measured"]) for row in blamed] == [
        ("HOST_LOOP", end - begin - collected, True)
    ]


def test_the_first_step_of_a_shape_is_a_warm_up_beyond_its_prediction(
    tables: RunTables, causes: Counter[tuple[str, str]]
) -> None:
    (cold,) = [row for row in _steps_of(tables, RID["first of a shape"]) if row["sum_decode_kv_tokens"] == 256]
    (noted,) = [row for row in _stalls(tables, "warmup") if row["t_start"] == cold["t_exec"]]
    collected = [row for row in _stalls(tables, "gc") if row["source"] == "worker"]
    pauses = sum(_overlap(row, cold["t_exec"], cold["t_done"]) for row in collected)
    warm_up = cold["t_done"] - cold["t_exec"] - cold["predicted_ns"] - pauses
    assert noted["detail"] == "decode 1 x 512"
    assert causes["first of a shape", "HOST_WARMUP"] == warm_up >= NS - cold["predicted_ns"]


def test_loading_warms_up_before_any_request(tables: RunTables) -> None:
    (loading,) = [row for row in _stalls(tables, "warmup") if row["detail"] == "loading"]
    assert loading["t_end"] <= min(row["t_sched"] for row in tables.table("steps").to_pylist())


def test_every_prompt_that_was_text_has_the_stretch_of_its_tokenising(tables: RunTables) -> None:
    found = {row["rid"]: (row["t_start"], row["t_end"]) for row in _stalls(tables, "tokenise")}
    requests = {row["rid"]: row for row in tables.table("requests").to_pylist()}
    assert found.keys() == requests.keys() - {RID["first of a shape"]}
    for rid, (begin, end) in found.items():
        assert requests[rid]["arrival"] <= begin <= end <= requests[rid]["admitted"]
    begin, end = found[RID["slow to tokenise"]]
    assert end - begin >= NS


def test_no_stamp_of_a_worker_lies_in_one_of_its_collections(tables: RunTables) -> None:
    """So that a pass and its collections can be told apart to the nanosecond."""
    stamps = [t for row in tables.table("steps").to_pylist() for t in (row["t_sched"], row["t_exec"], row["t_done"])]
    for row in _stalls(tables, "gc"):
        assert row["source"] != "worker" or not [t for t in stamps if row["t_start"] < t < row["t_end"]]


def test_causes_sum_and_checks_pass(tables: RunTables) -> None:
    assert pc.unique(tables.table("requests")["status"]).to_pylist() == ["ok"]
    assert [result for result in check(tables) if not result.ok] == []


def _stalls(tables: RunTables, kind: str) -> list[dict[str, Any]]:
    return [row for row in tables.table("stalls").to_pylist() if row["kind"] == kind]


def _steps_of(tables: RunTables, rid: int) -> list[dict[str, Any]]:
    mine = {row["step"] for row in tables.table("slices").to_pylist() if row["rid"] == rid}
    return [row for row in tables.table("steps").to_pylist() if row["step"] in mine]


def _overlap(row: dict[str, Any], begin: int, end: int) -> int:
    return max(min(int(row["t_end"]), end) - max(int(row["t_start"]), begin), 0)
