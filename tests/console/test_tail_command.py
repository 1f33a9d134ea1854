"""`tailtrace tail` as a person runs it: in a process of its own, on runs that live, ended, or were killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from recorder.producer import RingProducer
from recorder.run import RunInfo, create_run, load_info, save_info
from recorder.tail.access import read_door
from recorder.words import Phase, Status
from tests.console.tui_runs import served
from tests.recorder.processes import DEADLINE_S, new_name, until
from tests.recorder.tails import tail_recorder

MS = 1_000_000


class Tail:
    """A running `tailtrace tail`; what it says is collected while it runs."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "console.cli", "tail", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.lines: list[str] = []
        self.words: list[str] = []
        self._threads = [
            threading.Thread(target=lambda: self.lines.extend(self.process.stdout or ()), daemon=True),
            threading.Thread(target=self._listen, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        for line in self.process.stderr or ():
            self.words.append(line)

    def says(self, words: str) -> bool:
        assert self.process.poll() is None or any(words in line for line in self.words), self.words
        return any(words in line for line in self.words)

    def wait(self) -> int:
        code = self.process.wait(DEADLINE_S)
        for thread in self._threads:
            thread.join(DEADLINE_S)
        return code


@contextmanager
def tail(*arguments: object) -> Iterator[Tail]:
    running = Tail(*arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.wait()


class Engine:
    """Stands in for front end and worker: serves requests one after another, each in a hundred nanoseconds."""

    def __init__(self, folder: Path) -> None:
        self.run = create_run(folder, RunInfo(run_id=new_name(), config={"record": {"seal_interval_s": 0.1}}))
        self.front = RingProducer(self.run, "frontend", ["requests", "spans"], 1)
        self.worker = RingProducer(self.run, "worker0", ["spans"], 1)
        self.served = 0

    def serve(self, count: int = 1) -> None:
        for rid in range(self.served, self.served + count):
            start = rid * 1000
            known = {"rid": rid, "attempt": 1, "request_id": f"r{rid}", "arrival": start}
            self.front.row("requests", **known, status=Status.OPEN)
            self.worker.row("spans", rid=rid, attempt=1, name=Phase.DECODE, start=start + 30, end=start + 90)
            for name, at, until_ns in ((Phase.QUEUE, start, start + 30), (Phase.RETURN, start + 90, start + 100)):
                self.front.row("spans", rid=rid, attempt=1, name=name, start=at, end=until_ns)
            self.front.row("requests", **known, status=Status.OK, first_token=start + 50, returned=start + 100)
        self.served += count

    def close(self) -> None:
        self.front.close()
        self.worker.close()


def documents(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def check_all(found: list[dict[str, Any]], count: int, run: Path) -> None:
    """Every request once, with phases that tile its life."""
    assert [one["rid"] for one in found] == list(range(count))
    assert {one["run"] for one in found} == {run.name}
    assert all(one["complete"] and one["phases_ns"] == {"queue": 30, "decode": 60, "return": 10} for one in found)


def test_a_sealed_run_is_read_to_its_end(tmp_path: Path) -> None:
    run = served(tmp_path)
    with tail(run, "--headless") as tailing:
        assert tailing.wait() == 0
    assert len(tailing.lines) == 24
    assert all(" ok " in line and " decode " in line and "incomplete" not in line for line in tailing.lines)
    assert tailing.words == [
        f"tailtrace tail: following continuous at {run}\n",
        "tailtrace tail: the run is sealed\n",
    ]


def test_a_killed_run_is_read_to_its_end(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.serve(50)
    with tail(engine.run, "--json") as tailing:
        assert tailing.wait() == 0
    check_all(documents(tailing.lines), 50, engine.run)
    assert "the run was killed; this is all it has" in tailing.words[-1]


def test_recorder_killed_and_replaced_under_folder_and_address(tmp_path: Path) -> None:
    """Not a request is lost or told twice, and both are told when the run is sealed."""
    engine = Engine(tmp_path)
    with tail_recorder(engine.run) as (recorder, _):
        door = read_door(engine.run)
        assert door is not None
        with (
            tail(engine.run, "--json", "--from", "start") as here,
            tail(door.url, "--json", "--from", "start") as there,
        ):
            engine.serve(20)
            until(lambda: len(here.lines) == len(there.lines) == 20, "both have told all of them")
            recorder.kill()
            recorder.wait()
            engine.serve(20)
            until(lambda: here.says("cut off") and there.says("cut off"), "both notice")
            with tail_recorder(engine.run) as (successor, let_go):
                engine.serve(20)
                until(lambda: len(here.lines) >= 60 and len(there.lines) >= 60, "both have told all of them")
                engine.serve(1)
                engine.close()
                let_go()
                assert successor.wait(DEADLINE_S) == 0
            assert here.wait() == 0
            until(lambda: there.says("the run is sealed"), "the other says so")
            there.process.send_signal(signal.SIGINT)
            assert there.wait() == 130
    for tailing in (here, there):
        check_all(documents(tailing.lines), 61, engine.run)


def test_the_engine_was_started_again(tmp_path: Path) -> None:
    engines = [Engine(tmp_path) for _ in range(2)]
    with tail_recorder(engines[0].run) as (recorder, let_go):
        door = read_door(engines[0].run)
        assert door is not None
        with tail(door.url, "--json") as tailing:
            until(lambda: tailing.says("following"), "it is connected")
            engines[0].serve(10)
            engines[0].close()
            let_go()
            assert recorder.wait(DEADLINE_S) == 0
            engines[1].serve(10)
            with tail_recorder(engines[1].run, f"--tail-port={door.port}"):
                until(lambda: len(tailing.lines) == 20, "the new run is told from its beginning")
                assert tailing.says(f"another run is recorded there now: {engines[1].run.name} after")
    check_all(documents(tailing.lines[:10]), 10, engines[0].run)
    check_all(documents(tailing.lines[10:]), 10, engines[1].run)


def test_drops_and_what_they_touched_are_told(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.worker.close()
    small = RingProducer(engine.run, "worker1", ["spans"], 0.0001)
    with tail_recorder(engine.run), tail(engine.run, "--json") as tailing:
        until(lambda: tailing.says("following"), "it is connected")
        while small.append("spans", 0, 1, 0, 0, 5, 0, 0, 0):
            pass
        engine.front.row("requests", rid=900, attempt=1, status=Status.OK, arrival=0, returned=100)
        until(lambda: len(tailing.lines) == 1, "it is told")
        (found,) = documents(tailing.lines)
        assert found["complete"] is False
        until(lambda: tailing.says("dropped by full rings"), "the drops are told")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere", "--json"], "nowhere is no run: there is no such folder"),
        (["ws://127.0.0.1:1/tail", "--headless"], "can't be reached"),
        (["http://127.0.0.1:1", "--json"], "ws://127.0.0.1:1/tail can't be reached"),
        (["s3://bucket/run", "--json"], "`tailtrace open s3://bucket/run` shows a run that lies elsewhere"),
        (["ws://127.0.0.1:1/tail"], "tail needs a terminal; --headless prints finished requests anywhere"),
    ],
)
def test_bad_input_is_answered_in_words(arguments: list[str], complaint: str) -> None:
    with tail(*arguments) as tailing:
        assert tailing.wait() == 2
    assert complaint in "".join(tailing.words)
    assert "Traceback" not in "".join(tailing.words)


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_an_address_is_followed_in_either_spelling(tmp_path: Path, scheme: str) -> None:
    engine = Engine(tmp_path)
    with tail_recorder(engine.run):
        door = read_door(engine.run)
        assert door is not None
        with tail(door.url.replace("ws", scheme, 1), "--json", "--from", "start") as tailing:
            engine.serve(2)
            until(lambda: len(tailing.lines) == 2, "both are told")
    check_all(documents(tailing.lines), 2, engine.run)


class NoTail(SimpleHTTPRequestHandler):
    """Knows no path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_error(404)


def test_a_server_that_is_no_tail_is_told_from_one() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), NoTail) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with tail(f"http://127.0.0.1:{server.server_port}", "--json") as tailing:
            assert tailing.wait() == 2
        server.shutdown()
    assert "it is no tail, which has a port of its own" in "".join(tailing.words)


def test_a_run_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    info = load_info(engine.run)
    info.schema_version += 1
    save_info(engine.run, info)
    with tail(engine.run, "--json") as tailing:
        assert tailing.wait() == 2
    assert "upgrade tailtrace" in "".join(tailing.words)


def test_a_reader_that_goes_is_no_accident(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "console.cli", "tail", str(served(tmp_path)), "--headless"]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert ended.returncode == 141
    assert "Traceback" not in ended.stderr
