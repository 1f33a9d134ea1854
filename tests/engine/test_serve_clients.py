"""Clients that leave, clients that do not read, and clients without a key."""

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine import raw_http
from tests.engine.served import Served, serving, until

LONG = {"prompt": "x", "max_tokens": 2000, "stream": True, "ignore_eos": True}
SHORT = {"prompt": "x", "max_tokens": 3}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_work(server: Served, stream: bool) -> None:
    request_id = f"leaves-{stream}"
    sock = raw_http.post(server.address, {**LONG, "stream": stream}, request_id)
    until("it runs", lambda: any(e["kind"] == "first_token" for e in _events(server, request_id)))
    sock.close()
    row = server.await_status(request_id, ["cancelled"])
    assert row["reason"] == "the client went away"
    assert row["returned"] is None
    assert int(str(row["output_tokens"])) < 2000
    (event,) = [e for e in _events(server, request_id) if e["kind"] == "cancelled"]
    assert int(str(event["freed_blocks"])) > 0


def _events(server: Served, request_id: str) -> list[dict[str, object]]:
    rids = {row["rid"] for row in server.rows("requests") if row["request_id"] == request_id}
    return [event for event in server.rows("events") if event["rid"] in rids]


def test_a_client_that_does_not_read_holds_up_nobody_and_loses_nothing(server: Served) -> None:
    request_id = "slow-" + "x" * 8000  # comes back in every chunk, so that no socket buffer takes the whole answer
    slow = raw_http.post(server.address, {**LONG, "max_tokens": 1000}, request_id, receive_buffer=4096)
    (rid,) = _wait_for_rid(server, "slow-")
    until("the worker is done with it", lambda: _has_event(server, rid, "finished"))
    quick = raw_http.read_all(raw_http.post(server.address, SHORT, "quick"))
    assert b'"finish_reason":"length"' in quick
    server.await_status("quick", ["ok"])
    assert [row["status"] for row in server.rows("requests") if row["rid"] == rid] == ["open"]

    answer = raw_http.read_all(slow)
    assert answer.count(b'"finish_reason":"length"') == 1
    assert b"data: [DONE]" in answer
    until("it has ended", lambda: [r["status"] for r in server.rows("requests") if r["rid"] == rid] == ["ok"])
    steps = {row["step"] for row in server.rows("slices") if row["rid"] == rid}
    assert answer.count(b'"finish_reason":null') < len(steps) - 1, "what piled up leaves together"
    delivered = {row["step"]: row for row in server.rows("deliveries") if row["step"] in steps}
    assert set(delivered) == steps
    assert None in {row["t_written"] for row in delivered.values()}, "a row does not wait for a slow client forever"


def _wait_for_rid(server: Served, prefix: str) -> list[int]:
    found: list[int] = []

    def look() -> bool:
        found[:] = [int(str(r["rid"])) for r in server.rows("requests") if str(r["request_id"]).startswith(prefix)]
        return bool(found)

    until(f"{prefix} has arrived", look)
    return found


def _has_event(server: Served, rid: int, kind: str) -> bool:
    return any(event["rid"] == rid and event["kind"] == kind for event in server.rows("events"))


def test_half_a_body_is_no_request(server: Served) -> None:
    half = socket.create_connection(server.address)
    half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: half\r\nContent-Length: 100\r\n\r\n{")
    half.close()
    raw_http.read_all(raw_http.post(server.address, SHORT, "whole"))
    server.await_status("whole", ["ok"])
    assert "half" not in {row["request_id"] for row in server.rows("requests")}


def test_odd_headers_and_texts_are_served(server: Served) -> None:
    odd = {**SHORT, "prompt": "\x00\u200b\U0001f600 \ufffd", "user": "\U0001f600" * 100}
    answer = raw_http.read_all(raw_http.post(server.address, odd, "na\u00efve \U0001f600"))
    assert b"HTTP/1.1 200" in answer
    server.await_status("na\u00efve \U0001f600", ["ok"])
    latin = raw_http.post(server.address, SHORT, "caf\u00e9", encoding="latin-1")
    assert b"HTTP/1.1 200" in raw_http.read_all(latin)
    server.await_status("caf?", ["ok"])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/v1/completions", b"[]", 400), ("/v1/completions", b"x" * 5_000_000, 413), ("/v1/nothing", b"{}", 404)],
)
def test_every_refusal_has_openais_shape(server: Served, path: str, body: bytes, status: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(server.url + path, body)
    assert caught.value.code == status
    assert json.loads(caught.value.read())["error"]["type"] == "invalid_request_error"


def test_a_key_is_asked_for_everywhere_but_at_health(tmp_path: Path) -> None:
    with serving(tmp_path, "--api-key", "secret") as server:
        assert urllib.request.urlopen(f"{server.url}/health").status == 200
        for key, status in ((None, 401), ("wrong", 401), ("secret", 200)):
            assert _status(f"{server.url}/v1/models", key) == status
        assert "secret" not in (server.run / "run.json").read_text()


def _status(url: str, key: str | None) -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        return int(urllib.request.urlopen(request).status)
    except urllib.error.HTTPError as error:
        return error.code


def test_terms_reach_the_record_and_nonsense_is_refused(server: Served) -> None:
    raw_http.read_all(raw_http.post(server.address, {**SHORT, "priority": 1, "deadline_ms": 60_000.5}, "terms"))
    row = server.await_status("terms", ["ok"])
    assert int(str(row["deadline"])) - int(str(row["arrival"])) == 60_000_500_000
    refused = urllib.request.Request(
        f"{server.url}/v1/completions", json.dumps(SHORT).encode(), headers={"X-Deadline-Ms": "soon"}
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(refused)
    assert (caught.value.code, json.loads(caught.value.read())["error"]["param"]) == (400, "X-Deadline-Ms")


def test_who_is_overdue_in_the_queue_is_told_so(server: Served) -> None:
    """SPEC A6: its deadline is its arrival, so the first pass that sees it ends it."""
    answer = raw_http.read_all(raw_http.post(server.address, {**SHORT, "deadline_ms": 0}, "overdue"))
    assert b"HTTP/1.1 504" in answer
    assert b"deadline_exceeded" in answer
    row = server.await_status("overdue", ["expired"])
    assert (row["http_status"], row["first_scheduled"]) == (504, None)
    assert _has_event(server, int(str(row["rid"])), "expired")


def test_a_prompt_that_was_served_before_is_found_again(tmp_path: Path) -> None:
    """SPEC C4, through HTTP, worker and record: the answer is the same, and all but the last block was cached."""
    body = {"prompt": list(range(1, 36)), "max_tokens": 6, "temperature": 0, "seed": 1}
    with serving(tmp_path, toml="[kv]\nenable_prefix_caching = true\n") as server:
        answers = [raw_http.read_all(raw_http.post(server.address, body, name)) for name in ("one", "two")]
        texts = [json.loads(answer.split(b"\r\n\r\n", 1)[1])["choices"][0]["text"] for answer in answers]
        assert texts[0] == texts[1]
        cached = [server.await_status(name, ["ok"])["cached_tokens"] for name in ("one", "two")]
        assert cached == [0, 32]


def test_who_cannot_be_served_in_time_is_told_when_to_come_again(tmp_path: Path) -> None:
    """SPEC A6, B1, C2: 529 at once, with the wait in ms and in whole seconds, and the server's clock."""
    toml = "[scheduler]\nmax_num_seqs = 1\nmax_queue_size = 1\n"
    with serving(tmp_path, toml=toml) as server:
        first = raw_http.post(server.address, {**LONG, "max_tokens": 1000}, "running")
        until("the front end has heard that the first runs", lambda: bool(server.rows("deliveries")))
        second = raw_http.post(server.address, SHORT, "waiting")
        until("the second waits", lambda: any(row["rid"] == 2 for row in server.rows("events")))
        request = urllib.request.Request(f"{server.url}/v1/completions", json.dumps(SHORT).encode())
        request.add_header("X-Request-Id", "refused")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request)
        wait_ms = int(caught.value.headers["Retry-After-Ms"])
        assert caught.value.code == 529
        assert int(caught.value.headers["Retry-After"]) == -(-wait_ms // 1000)
        assert abs(float(caught.value.headers["X-Server-Time"]) - time.time()) < 60
        row = server.await_status("refused", ["rejected"])
        assert (row["http_status"], row["retry_after_ms"]) == (529, wait_ms)
        for answer in (first, second):
            assert b"HTTP/1.1 200" in raw_http.read_all(answer)


def test_the_run_tells_whom_a_prompt_begins_like(server: Served) -> None:
    """In whole blocks, and the output of that one included: the next turn of a conversation begins with it."""
    begin = [5 + place % 7 for place in range(40)]
    for name, prompt in (("begins", [*begin, 3, 4]), ("likewise", [*begin, 9]), ("alone", [8, 8, 8])):
        raw_http.read_all(raw_http.post(server.address, {**SHORT, "prompt": prompt}, name))
        server.await_status(name, ["ok"])
    first, second, third = (server.row_of(name) for name in ("begins", "likewise", "alone"))
    assert (first["prefix_of"], first["prefix_tokens"]) == (None, 0)
    assert (second["prefix_of"], second["prefix_tokens"]) == (first["rid"], 32)
    assert (third["prefix_of"], third["prefix_tokens"]) == (None, 0)
