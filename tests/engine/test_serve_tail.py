"""The live tail of a real engine: its address, requests as they end, and a recorder that is killed under it."""

import json
import re
import subprocess
from pathlib import Path

from tests.engine import raw_http
from tests.engine.served import DEADLINE_S, Served, command, environment, serving, until

SHORT: dict[str, object] = {"prompt": "x", "max_tokens": 3}


def ask(server: Served, names: list[str]) -> None:
    for name in names:
        with raw_http.post(server.address, SHORT, name) as sock:
            raw_http.read_all(sock)


def test_requests_are_told_as_they_end_whatever_becomes_of_the_recorder(tmp_path: Path) -> None:
    told = tmp_path / "told.jsonl"
    with serving(tmp_path, "--tail-host", "127.0.0.1") as server, told.open("wb") as out:
        url = re.search(r"live tail at (ws://127\.0\.0\.1:\d+/tail)\n", server.said)
        assert url
        watching = subprocess.Popen(
            command("tail", url[1], "--json", "--from", "start"), stdout=out, stderr=subprocess.PIPE, env=environment()
        )
        try:
            ask(server, ["a", "b"])
            until("both are told", lambda: told.read_text().count("\n") == 2)
            before = server.child("recorder").pid
            server.child("recorder").kill()
            ask(server, ["c"])
            until("another recorder took over", lambda: server.said.count("live tail at") == 2)
            assert server.child("recorder").pid != before
            ask(server, ["d"])
            until("all are told", lambda: told.read_text().count("\n") >= 4)
        finally:
            watching.kill()
            watching.wait(DEADLINE_S)
        found = [json.loads(line) for line in told.read_text().splitlines()]
        assert [one["request_id"] for one in found] == ["a", "b", "c", "d"]
        assert all(one["complete"] and one["run"] == server.run.name for one in found)
        assert all(sum(one["phases_ns"].values()) == one["e2e_ns"] for one in found)
    assert not (server.run / "tail.json").exists()


def test_beyond_this_machine_only_with_the_token(tmp_path: Path) -> None:
    with serving(tmp_path, "--tail-host", "0.0.0.0") as server:
        door = json.loads((server.run / "tail.json").read_text())
        for token, code in ((door["token"], None), ("wrong", 2)):
            watching = subprocess.Popen(
                command("tail", door["url"], "--json", "--token", token),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment(),
                text=True,
            )
            try:
                assert watching.stderr is not None
                said = watching.stderr.readline()
                assert ("following" if code is None else "answers 401") in said
            finally:
                watching.kill()
                watching.communicate(timeout=DEADLINE_S)
