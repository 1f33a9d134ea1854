"""A server that turns requests away as they arrive, and clients that come again, through HTTP and into the run."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine import raw_http
from tests.engine.served import DEADLINE_S, Served, command, environment, serving, until

TOML = """
[scheduler]
max_num_seqs = 1
max_queue_size = 1
deadline_admission = true
"""
SHORT = {"prompt": "abc", "max_tokens": 12, "ignore_eos": True, "stream": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), toml=TOML) as server:
        for number in range(3):
            raw_http.read_all(raw_http.post(server.address, SHORT, f"warm-{number}"))
        yield server


def refusal(server: Served, body: dict[str, object], **headers: str) -> urllib.error.HTTPError:
    request = urllib.request.Request(f"{server.url}/v1/completions", json.dumps(body).encode(), headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    return caught.value


def test_a_deadline_that_cannot_be_met_is_refused_without_a_pass_of_the_worker(server: Served) -> None:
    """SPEC A3, B1: the worker never hears of it."""
    told = refusal(server, SHORT, **{"X-Request-Id": "late", "X-Deadline-Ms": "0.01"})
    assert told.code == 429
    assert json.loads(told.read())["error"]["code"] == "deadline_exceeded"
    assert "Retry-After-Ms" not in told.headers, "even alone it would be late"
    row: dict[str, Any] = server.await_status("late", ["rejected"])
    assert (row["http_status"], row["admitted"], row["queued"]) == (429, None, None)
    assert row["arrival"] < row["returned"]
    assert "after its deadline, even if nobody else were here" in row["reason"]
    until("its event is on record", lambda: bool(events_of(server, row["rid"])))
    (event,) = events_of(server, row["rid"])
    assert (event["kind"], event["reason"], event["step"]) == ("rejected", "DEADLINE", None)
    assert event["t"] <= row["returned"]


def events_of(server: Served, rid: int) -> list[dict[str, object]]:
    return [event for event in server.rows("events") if event["rid"] == rid]


def test_refused_clients_come_again_and_the_run_tells_which_attempt_was_which(server: Served, tmp_path: Path) -> None:
    """SPEC A8, B2: one runs, one waits, the others are told when to come again."""
    lines = [{"arrival_s": 0, "prompt": "abc", "max_tokens": 30, "ignore_eos": True, "id": f"c{n}"} for n in range(5)]
    (tmp_path / "w.jsonl").write_text("\n".join(map(json.dumps, lines)))
    line = command("load", "--url", server.url, "--workload", tmp_path / "w.jsonl", "--json")
    sent = subprocess.run(
        [*line, "--retry", "50", "--retry-budget", "1", "--out", str(tmp_path / "stamps.jsonl")],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    stamps = [json.loads(stamp) for stamp in (tmp_path / "stamps.jsonl").read_text().splitlines()]
    ends = {stamp["id"]: (stamp["retries"], stamp["status"]) for stamp in stamps}
    assert sum(retries for retries, _ in ends.values()) >= 2, sent.stderr
    assert {status for _, status in ends.values()} <= {"ok", "rejected"}, "who ran out of retries is told so"

    def chains() -> dict[str, list[dict[str, Any]]]:
        rows: list[dict[str, Any]] = sorted(server.rows("requests"), key=lambda row: str(row["arrival"]).zfill(20))
        return {name: [row for row in rows if row["request_id"] == name] for name in ends}

    def statuses() -> dict[str, list[str]]:
        return {name: [row["status"] for row in chain] for name, chain in chains().items()}

    told = {name: ["rejected"] * retries + [status] for name, (retries, status) in ends.items()}
    until("all are on record", lambda: statuses() == told)
    for name, chain in chains().items():
        assert [row["attempt"] for row in chain] == list(range(1, ends[name][0] + 2))
        assert [row["retry_of"] for row in chain] == [None, *(row["rid"] for row in chain[:-1])]
        refused = [row for row in chain if row["status"] == "rejected"]
        assert all(row["http_status"] == 529 and row["retry_after_ms"] >= 1 for row in refused)


def test_the_retries_of_other_clients_are_understood_and_nonsense_is_refused(server: Served) -> None:
    """OpenAI's own clients count retries, and some only send an Idempotency-Key."""
    for headers in ({"Idempotency-Key": "idem"}, {"Idempotency-Key": "idem", "X-Stainless-Retry-Count": "2"}):
        body = json.dumps({**SHORT, "max_tokens": 2}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{server.url}/v1/completions", body, headers)).read()
    until("both are on record", lambda: len(named(server, "idem")) == 2)
    first, third = named(server, "idem")
    assert (first["attempt"], third["attempt"], third["retry_of"]) == (1, 3, first["rid"])
    for name, text in (("X-Attempt", "0"), ("X-Attempt", "two"), ("X-Stainless-Retry-Count", "-1")):
        told = refusal(server, SHORT, **{name: text})
        assert (told.code, json.loads(told.read())["error"]["param"]) == (400, name)


def named(server: Served, request_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = server.rows("requests")
    return [row for row in rows if row["request_id"] == request_id and row["status"] == "ok"]
