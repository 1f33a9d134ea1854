"""Three workers behind one door: nobody notices it when one falls silent and comes back, and when one is killed.

SPEC A7, C6, C9. Processes, sockets, rings and signals are the real ones; a worker is held in mid-batch from outside.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from engine.api.app import Api, build_app
from engine.api.door import Door, listen
from engine.config import Config, EngineConfig, KvConfig, RouterConfig
from engine.model.source import open_model
from engine.supervisor import Engine, EngineOptions
from engine.whatif.recorded import read_recorded
from recorder.attribution import attribute
from recorder.check import check
from recorder.run import load_info
from recorder.tables import RunTables, open_tables
from tests.engine.served import DEADLINE_S

TOKENS = 24
CONFIG = Config(
    engine=EngineConfig(dtype="float32"),  # sums in other orders would change the choice between equals
    kv=KvConfig(num_blocks=64),
    router=RouterConfig(heartbeat_ms=50, heartbeat_timeout_ms=5000, max_worker_losses=2),
)
ASKED = {"whole-1": "one", "stream-1": "two", "whole-2": "three", "stream-2": "four", "whole-3": "x", "stream-3": "y"}
SILENT, KILLED = 2, 1

Row = dict[str, Any]


@dataclass
class Story:
    """What clients were answered in each round, and the run that tells why."""

    run: Path
    texts: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def tables(self) -> RunTables:
        return open_tables(self.run)

    def rows(self, table: str) -> list[Row]:
        return list(self.tables.table(table).to_pylist())

    def events(self, kind: str) -> list[Row]:
        return [event for event in self.rows("events") if event["kind"] == kind]

    def attempts(self, round_: str) -> dict[str, list[Row]]:
        """The rows of each request of a round, in the order of its attempts."""
        found: dict[str, list[Row]] = {}
        for row in sorted(self.rows("requests"), key=lambda row: int(row["attempt"])):
            if row["request_id"].startswith(f"{round_}/"):
                found.setdefault(row["request_id"].partition("/")[2], []).append(row)
        return found


def text_of(answer: str, *, stream: bool) -> str:
    """The text of an answer that has its end, exactly once."""
    assert answer.count('"finish_reason":"length"') == 1, answer[-300:]
    if not stream:
        return str(json.loads(answer)["choices"][0]["text"])
    assert answer.count("data: [DONE]") == 1
    chunks = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
    return "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])


async def _ask(session: aiohttp.ClientSession, request_id: str, prompt: str) -> str:
    """Greedy, so that the same prompt has the same answer wherever it is computed."""
    stream = "stream" in request_id
    body = {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "stream": stream}
    async with session.post("/v1/completions", json=body, headers={"X-Request-Id": request_id}) as response:
        return text_of(await response.text(), stream=stream)


async def _round(session: aiohttp.ClientSession, name: str) -> dict[str, str]:
    """All at once: they spread over the workers."""
    asking = [_ask(session, f"{name}/{asked}", prompt) for asked, prompt in ASKED.items()]
    return dict(zip(ASKED, await asyncio.gather(*asking), strict=True))


async def _until(what: str, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.02)
    assert holds(), what


async def _tell(engine: Engine, url: str, folder: Path) -> Story:
    assert engine.run is not None
    story = Story(engine.run)
    async with aiohttp.ClientSession(url) as session:
        story.texts["calm"] = await _round(session, "calm")

        (folder / f"hold-{SILENT}").write_text("5")
        story.texts["silent"] = await _round(session, "silent")
        assert (folder / f"held-{SILENT}").exists()
        (folder / f"hold-{SILENT}").unlink()
        await _until("it is in again", lambda: len(story.events("worker_ready")) == 4)

        (folder / f"hold-{KILLED}").write_text("5")
        going = asyncio.ensure_future(_round(session, "killed"))
        await _until("it is in the middle", (folder / f"held-{KILLED}").exists)
        os.kill(engine.workers[KILLED].pid, signal.SIGKILL)
        story.texts["killed"] = await going
        story.texts["after"] = await _round(session, "after")
    return story


async def _record(folder: Path) -> Story:
    source = open_model("tiny", "dummy")
    command = (sys.executable, "-m", "tests.engine.held_worker", str(folder))
    options = EngineOptions(source, "tiny", CONFIG, folder / "runs", "dummy", "cpu", worker_command=command, workers=3)
    engine = Engine(options)
    app = build_app(Api(engine.gateway, source.tokenizer, "tiny", source.spec.vocab), None, 1 << 20)
    with listen("127.0.0.1", 0) as sock:
        door = Door(app, sock)
        await door.open()
        await engine.start()
        story = await _tell(engine, door.url, folder)
        await door.close()
    assert await engine.leave()
    return story


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return asyncio.run(_record(tmp_path_factory.mktemp("fleet")))


def test_every_client_has_the_answer_of_an_undisturbed_run_exactly_once(story: Story) -> None:
    calm = story.texts["calm"]
    assert all(len(text) > TOKENS // 4 for text in calm.values())
    assert story.texts == dict.fromkeys(("calm", "silent", "killed", "after"), calm)
    assert [row["status"] for rows in story.attempts("calm").values() for row in rows] == ["ok"] * len(ASKED)


def test_the_run_passes_all_checks_and_names_every_worker(story: Story) -> None:
    assert [(found.name, found.detail) for found in check(story.tables) if not found.ok] == []
    assert [device["worker"] for device in load_info(story.run).devices] == [0, 1, 2]
    for table in ("steps", "deliveries", "spans"):
        assert {row["worker"] for row in story.rows(table)} == {0, 1, 2}, table


def test_requests_are_spread_and_the_ledger_says_why(story: Story) -> None:
    rows = [row for name in ("calm", "after") for rows in story.attempts(name).values() for row in rows]
    routed = {event["rid"]: (event["worker"], event["reason"]) for event in story.events("routed")}
    assert [routed[row["rid"]] for row in rows] == [(row["worker"], "LEAST_QUEUED") for row in rows]
    assert {row["worker"] for row in rows[: len(ASKED)]} == {0, 1, 2}
    assert {row["worker"] for row in rows[len(ASKED) :]} == {0, 2}


@pytest.mark.parametrize(
    ("round_", "worker", "why"),
    [("silent", SILENT, "worker 2 was silent for too long"), ("killed", KILLED, "worker 1 died")],
)
def test_what_a_lost_worker_held_is_told_as_two_attempts(story: Story, round_: str, worker: int, why: str) -> None:
    attempts = story.attempts(round_)
    twice = {name: rows for name, rows in attempts.items() if len(rows) > 1}
    assert twice, "the worker held somebody"
    reasons = {event["rid"]: event["reason"] for event in story.events("routed")}
    gone = {event["rid"]: event["t"] for event in story.events("failed")}
    for name, (first, second) in twice.items():
        assert (first["status"], first["worker"], first["reason"], first["returned"]) == ("failed", worker, why, None)
        assert (second["status"], second["attempt"], second["retry_of"]) == ("ok", 2, first["rid"])
        assert reasons[second["rid"]] == "HANDED_BACK"
        assert second["arrival"] == first["arrival"]
        assert second["admitted"] >= gone[first["rid"]]
        already = second["prompt_tokens"] - first["prompt_tokens"]
        assert already + second["output_tokens"] == TOKENS
        assert ("stream" in name) == (already > 0), "whole answers begin anew, streams go on"
    assert {rows[-1]["status"] for rows in attempts.values()} == {"ok"}


def test_losses_and_returns_are_events_of_their_worker(story: Story) -> None:
    lost = [(event["worker"], event["reason"]) for event in story.events("worker_lost")]
    assert lost == [(SILENT, "HEARTBEAT"), (KILLED, "NONE")]
    assert sorted(event["worker"] for event in story.events("worker_ready")) == [0, 1, SILENT, SILENT]


def test_a_re_run_loses_the_worker_that_died_and_says_that_nobody_is_silent(story: Story) -> None:
    recorded = read_recorded(story.tables)
    assert len(recorded.arrivals) == 4 * len(ASKED), "who was handed on asked once"
    assert {arrival.output_tokens for arrival in recorded.arrivals} == {TOKENS}
    died = next(event["t"] for event in story.events("worker_lost") if event["worker"] == KILLED)
    assert recorded.info.config["faults"]["worker_lost"] == f"{KILLED}@{(died - recorded.origin) / 1e9:.9f}"
    assert any(f"worker {SILENT} was taken out" in note for note in recorded.notes)


def test_late_results_of_a_worker_that_came_back_are_dropped(story: Story) -> None:
    """Its attempts were called off: it says so of each, and nobody has them delivered."""
    stale = {rows[0]["rid"] for rows in story.attempts("silent").values() if len(rows) > 1}
    left = {event["rid"] for event in story.events("cancelled")} | {event["rid"] for event in story.events("finished")}
    assert stale <= left
    assert {row["status"] for row in story.rows("requests") if row["rid"] in stale} == {"failed"}


def test_the_time_before_it_changed_hands_has_a_name(story: Story) -> None:
    """SPEC F1: an answer's causes sum to what its client waited, the lost attempt included."""
    causes = attribute(story.tables).to_pylist()
    for first, second in (rows for rows in story.attempts("killed").values() if len(rows) > 1):
        mine = [row for row in causes if row["rid"] == second["rid"]]
        assert sum(row["ns"] for row in mine) == second["returned"] - first["arrival"]
        lost = sum(row["ns"] for row in mine if row["cause"] == "EARLIER_ATTEMPT")
        assert lost > (second["admitted"] - second["arrival"]) * 0.9
