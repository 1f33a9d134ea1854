"""How a server begins and ends: refusals at the door, draining, deaths of its processes, and what its run shows."""

import itertools
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from recorder.run import run_state
from recorder.tables import open_tables
from tests.engine import raw_http
from tests.engine.served import DEADLINE_S, Served, command, environment, serving, until

LONG = {"prompt": "x", "max_tokens": 2000, "stream": True, "ignore_eos": True}
SHORT = {"prompt": "x", "max_tokens": 3}


def refused(folder: Path, *arguments: object) -> str:
    """Run a serve that must not start; returns what it says. It leaves nothing behind and no traceback."""
    line = command("serve", "--model", "tiny", "--load-format", "dummy", "--runs", "runs", *arguments)
    ended = subprocess.run(
        line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert not list((folder / "runs").glob("*"))
    return ended.stderr


def test_a_port_in_use_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"tailtrace: port {port} of 127.0.0.1 is in use" in refused(tmp_path, "--port", port)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", 99999), "is no port"),
        (("--host", "no.such.host.invalid", "--allow-open"), "can't listen on no.such.host.invalid"),
        (("--host", "0.0.0.0", "--port", 0), "give --api-key KEY, or --allow-open"),
        (("--model", "nowhere.gguf", "--port", 0), "there is no model at nowhere.gguf"),
        (("--config", "none.toml", "--port", 0), "can't read the configuration"),
        (("--device", "cuda", "--port", 0), "no usable CUDA GPU"),
        (("--workers", 0, "--port", 0), "--workers 0: give a number from 1 to 64"),
    ],
)
def test_what_can_not_be_served_is_refused_with_words(
    tmp_path: Path, arguments: tuple[object, ...], words: str
) -> None:
    assert words in refused(tmp_path, *arguments)


def test_a_cache_that_can_not_be_had_leaves_no_run(tmp_path: Path) -> None:
    (tmp_path / "huge.toml").write_text("[kv]\nnum_blocks = 16777216\nblock_size = 1024\n")
    assert "tailtrace: " in refused(tmp_path, "--port", 0, "--config", "huge.toml")


def test_an_interrupt_lets_requests_finish_and_seals_the_run(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        streamed = raw_http.post(server.address, {**LONG, "max_tokens": 600}, "running")
        server.await_status("running", ["open"])
        server.interrupt()
        until("nobody new comes in", lambda: _refuses(server))
        assert b"data: [DONE]" in raw_http.read_all(streamed)
        assert server.process.wait(DEADLINE_S) == 0
        assert f"tailtrace open {server.run}" in server.said
        assert run_state(server.run) == "sealed"
        assert not list((server.run / "rings").glob("*"))
        (row,) = server.rows("requests")
        assert (row["status"], row["output_tokens"]) == ("ok", 600)
        assert not server.tables.damages


def _refuses(server: Served) -> bool:
    try:
        socket.create_connection(server.address, timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_second_interrupt_cuts_off_and_still_seals(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        streamed = raw_http.post(server.address, LONG, "running")
        whole = raw_http.post(server.address, {**LONG, "stream": False}, "whole")
        server.await_status("whole", ["open"])
        until("the stream has begun", lambda: _begun(server, 2))
        server.interrupt()
        until("nobody new comes in", lambda: _refuses(server))
        server.interrupt()
        assert b"the server stopped before" in raw_http.read_all(streamed)
        assert b"HTTP/1.1 503" in raw_http.read_all(whole)
        assert server.process.wait(DEADLINE_S) == 0
        assert run_state(server.run) == "sealed"
        assert {row["status"] for row in server.rows("requests")} == {"cancelled"}


def _begun(server: Served, requests: int) -> bool:
    return sum(event["kind"] == "first_token" for event in server.rows("events")) == requests


def test_a_dead_worker_fails_what_it_held_and_ends_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        streamed = raw_http.post(server.address, LONG, "streamed")
        whole = raw_http.post(server.address, {**LONG, "stream": False}, "whole")
        until("both run", lambda: _begun(server, 2))
        until("the stream has reached its client", lambda: b"data:" in streamed.recv(1 << 16))
        os.kill(server.child("engine.worker").pid, signal.SIGKILL)
        assert b'"code":"worker_lost"' in raw_http.read_all(streamed)
        answer = raw_http.read_all(whole)
        assert b"HTTP/1.1 500" in answer
        assert b"safe to send it again" in answer
        assert server.process.wait(DEADLINE_S) == 1
        assert "the worker was ended by SIGKILL" in server.said
        assert run_state(server.run) == "sealed"
        assert {(row["status"], row["http_status"]) for row in server.rows("requests")} == {
            ("failed", 200),
            ("failed", 500),
        }
        assert [event["kind"] for event in server.rows("events")].count("worker_lost") == 1


def test_a_dead_recorder_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        raw_http.read_all(raw_http.post(server.address, SHORT, "before"))
        os.kill(server.child("recorder").pid, signal.SIGKILL)
        until("another has started", lambda: "starting another" in server.said)
        raw_http.read_all(raw_http.post(server.address, SHORT, "after"))
        assert server.stop() == 0
        assert run_state(server.run) == "sealed"
        assert {row["request_id"]: row["status"] for row in server.rows("requests")} == {"before": "ok", "after": "ok"}


def test_a_run_whose_processes_were_all_killed_shows_open_and_finished_requests(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        raw_http.read_all(raw_http.post(server.address, SHORT, "done"))
        server.await_status("done", ["ok"])
        running = raw_http.post(server.address, LONG, "in flight")
        until("it runs", lambda: _begun(server, 2))
        server.kill_all()
        running.close()
        assert run_state(server.run) == "killed"
        tables = open_tables(server.run)
        assert tables.damages == []
        rows = {row["request_id"]: row for row in tables.table("requests").to_pylist()}
        assert (rows["done"]["status"], rows["in flight"]["status"]) == ("ok", "open")
        steps = tables.table("steps").to_pylist()
        assert [step["step"] for step in steps] == list(range(len(steps)))
        assert all(a["t_end"] == b["t_sched"] for a, b in itertools.pairwise(steps))


def test_while_the_model_loads_the_door_says_so(tmp_path: Path) -> None:
    server = Served(tmp_path)
    try:
        until("the door is open", lambda: "loading tiny" in server.said)
        os.kill(server.child("engine.worker").pid, signal.SIGSTOP)
        host, port = _listening(server)
        for path, body in (("health", None), ("v1/completions", b'{"prompt": "x"}')):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"http://{host}:{port}/{path}", body)
            assert caught.value.code == 503
            assert b"still loading" in caught.value.read()
        os.kill(server.child("engine.worker").pid, signal.SIGCONT)
        server.await_ready()
        assert urllib.request.urlopen(f"{server.url}/health").status == 200
    finally:
        server.end()


def _listening(server: Served) -> tuple[str, int]:
    (door,) = [c for c in psutil.Process(server.process.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    return str(door.laddr.ip), int(door.laddr.port)


def test_an_interrupt_while_the_model_loads_leaves_nothing(tmp_path: Path) -> None:
    server = Served(tmp_path)
    try:
        until("the door is open", lambda: "loading tiny" in server.said)
        os.kill(server.child("engine.worker").pid, signal.SIGSTOP)
        assert server.stop() == 0
        assert "stopped before the model was loaded" in server.said
        assert not list(server.runs.glob("*"))
    finally:
        server.end()


def test_nothing_is_recorded_where_that_is_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path, toml="[record]\nenabled = false\n") as server:
        assert b"HTTP/1.1 200" in raw_http.read_all(raw_http.post(server.address, SHORT, "unseen"))
        assert server.stop() == 0
        assert not list(server.runs.glob("*"))


def test_a_request_that_never_fits_the_cache_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, toml="[kv]\nnum_blocks = 4\n") as server:
        body = {"prompt": "x" * 60, "max_tokens": 30}
        assert b"HTTP/1.1 400" in raw_http.read_all(raw_http.post(server.address, body, "big"))
        assert server.await_status("big", ["rejected"])["http_status"] == 400
