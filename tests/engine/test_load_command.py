"""`tailtrace load`: open loop against any server, paired with the run by ids, invalid when it was late."""

import asyncio
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from engine.load.client import Outcome, drive
from engine.load.workload import Arrival
from tests.engine.served import DEADLINE_S, Served, command, environment, serving, until

N = 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), "--api-key", "secret") as server:
        yield server


def load(
    folder: Path, url: str, workload: list[dict[str, object]], *more: object
) -> "subprocess.CompletedProcess[str]":
    file = folder / "workload.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in workload))
    line = command("load", "--url", url, "--workload", file, *more)
    return subprocess.run(
        line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


async def drive_against(handler: Handler, arrivals: list[Arrival]) -> list[Outcome]:
    app = web.Application()
    app.router.add_post("/v1/completions", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        return await drive([site.name], "m", arrivals, None, lambda outcomes: None)
    finally:
        await runner.cleanup()


async def test_no_answer_is_waited_for() -> None:
    """A server that answers nobody before all have asked: a closed loop would wait for ever."""
    asked: list[str] = []
    all_here = asyncio.Event()

    async def hold(request: web.Request) -> web.Response:
        asked.append(request.headers["X-Request-Id"])
        if len(asked) == N:
            all_here.set()
        await all_here.wait()
        return web.Response(text='data: {"choices": [{"finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')

    arrivals = [Arrival(arrival_s=i / 1000, prompt="x", id=f"r{i}") for i in range(N)]
    outcomes = await asyncio.wait_for(drive_against(hold, arrivals), DEADLINE_S)
    assert sorted(asked) == sorted(f"r{i}" for i in range(N))
    assert [outcome.id for outcome in outcomes] == [f"r{i}" for i in range(N)]
    assert all(outcome.status == "ok" and outcome.finish_reason == "stop" for outcome in outcomes)
    assert all(o.due <= (o.sent or 0) <= (o.first_token or 0) <= (o.done or 0) for o in outcomes)


async def test_each_kind_of_failure_is_kept_with_its_words() -> None:
    answers = {
        "busy": web.Response(status=429, text='{"error": {"message": "come back"}}'),
        "bad": web.Response(status=400, text="no json"),
        "cut": web.Response(text='data: {"choices": [{}]}\n\n'),
        "error": web.Response(text='data: {"error": {"message": "worker died"}}\n\n'),
        "garbage": web.Response(text="data: {\n\n"),
    }

    async def answer(request: web.Request) -> web.Response:
        return answers[request.headers["X-Request-Id"]]

    outcomes = await drive_against(answer, [Arrival(arrival_s=0, prompt="x", id=name) for name in answers])
    said = {outcome.id: (outcome.status, outcome.error) for outcome in outcomes}
    assert said["busy"] == ("rejected", "come back")
    assert said["bad"] == ("failed", "HTTP 400")
    assert said["cut"] == ("failed", "the stream ended before [DONE]")
    assert said["error"] == ("failed", "worker died")
    assert said["garbage"][0] == "failed"
    assert "DecodeError" in said["garbage"][1]


def test_a_load_pairs_with_the_run_and_keeps_the_clients_stamps(server: Served, tmp_path: Path) -> None:
    workload: list[dict[str, object]] = [
        {"arrival_s": 0.0, "prompt": "Hello", "max_tokens": 4, "id": "first", "tier": "paid", "ignore_eos": True},
        {"arrival_s": 0.05, "prompt_tokens": 20, "max_tokens": 4, "tenant": "ada"},
    ]
    sent = load(tmp_path, server.url, workload, "--json", "--out", "stamps.jsonl", "--api-key", "secret")
    assert sent.returncode in {0, 1}, sent.stderr
    summary = json.loads(sent.stdout)
    assert (summary["shape"], summary["ok"], summary["model"]) == ("open loop", 2, "tiny")
    assert summary["valid"] == (sent.returncode == 0)
    stamps = [json.loads(line) for line in (tmp_path / "stamps.jsonl").read_text().splitlines()]
    assert [(stamp["id"], stamp["output_tokens"]) for stamp in stamps] == [("first", 4), ("w-0002", 4)]
    for stamp in stamps:
        row = server.await_status(stamp["id"], ["ok"])
        assert stamp["due"] <= stamp["sent"] <= int(str(row["arrival"])), "one clock for all processes of a host"
    assert server.row_of("first")["tier"] == "paid"
    assert server.row_of("w-0002")["tenant"] == "ada"


def test_a_load_that_can_not_keep_up_is_invalid(server: Served, tmp_path: Path) -> None:
    """A thousand requests at one instant can't all leave within 10 ms."""
    crowd: list[dict[str, object]] = [{"arrival_s": 0, "prompt": "x", "max_tokens": 1}] * 1000
    sent = load(tmp_path, server.url, crowd, "--api-key", "secret")
    assert sent.returncode == 1, sent.stderr
    assert "open loop: 1000 requests" in sent.stdout
    assert "INVALID" in sent.stdout
    until("all are on record", lambda: len(server.rows("requests")) >= 1000)


@pytest.mark.parametrize(
    ("workload", "more", "words"),
    [
        ([{"arrival_s": 0, "prompt": "x"}], (), "the server wants an API key"),
        (
            [{"arrival_s": 0, "prompt": "x", "n": 2}],
            ("--api-key", "secret"),
            "workload.jsonl:1: Object contains unknown",
        ),
        ([{"arrival_s": 0, "prompt": "x"}], ("--out", "no/such/file"), "there is no folder"),
    ],
)
def test_what_can_not_be_sent_is_refused(
    server: Served, tmp_path: Path, workload: list[dict[str, object]], more: tuple[str, ...], words: str
) -> None:
    refused = load(tmp_path, server.url, workload, *more)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr


def test_nobody_there_is_said_also_of_one_of_several(server: Served, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    nowhere = f"http://127.0.0.1:{port}"
    for more in ((), ("--url", server.url, "--api-key", "secret")):
        refused = load(tmp_path, nowhere, [{"arrival_s": 0, "prompt": "x"}], *more)
        assert refused.returncode == 2
        assert f"{nowhere}: no server answers there" in refused.stderr
