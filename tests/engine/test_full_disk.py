"""A disk that is really full: serving goes on, what is lost is counted, and recording resumes when there is room."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.report import report
from console.session import Session
from recorder.run import run_state
from tests.engine import raw_http
from tests.engine.served import Served, until

DISK_MB = 16
CONFIG = "[record]\nring_mb = 1\nseal_interval_s = 0.1\n[scheduler]\nmax_num_seqs = 32\n"
TOGETHER = 24
REQUEST = {"prompt": "x", "max_tokens": 250, "ignore_eos": True}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB."""
    place = tmp_path / "runs"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system can't be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(file: Path) -> None:
    """Take all room there is."""
    with file.open("wb", buffering=0) as ballast:
        chunk = bytes(4096)
        try:
            while True:
                ballast.write(chunk)
        except OSError as error:
            assert error.errno == 28, error


def ask(server: Served, *names: str) -> None:
    """Requests side by side, each answered in full."""
    asked = [raw_http.post(server.address, REQUEST, name) for name in names]
    for answer in map(raw_http.read_all, asked):
        assert b"200 OK" in answer.splitlines()[0]


def dropped(server: Served) -> int:
    return sum(server.tables.drops.values())


def test_full_disk(disk: Path) -> None:
    server = Served(disk.parent, toml=CONFIG).await_ready()
    try:
        ask(server, "before")
        server.await_status("before", ["ok"])
        fill(disk / "ballast")
        asked = 0
        while not dropped(server):
            ask(server, *(f"while full {asked + number}" for number in range(TOGETHER)))
            asked += TOGETHER
        assert server.row_of("before")["status"] == "ok"
        assert "can't write to" in server.said
        (disk / "ballast").unlink()
        until("recording resumes", lambda: "can write to" in server.said)
        asked += ask_until_kept(server)
        ask(server, "after")
        server.await_status("after", ["ok"])
        assert server.stop() == 0, server.said
        check_told(server, asked)
    finally:
        server.end()


def ask_until_kept(server: Served) -> int:
    """Some rings are emptied later than others: ask until one request found room in all. Returns how many it took."""
    asked, lost = 0, -1
    while lost != dropped(server):
        asked, lost = asked + 1, dropped(server)
        ask(server, f"again {asked}")
    return asked


def check_told(server: Served, asked: int) -> None:
    """Every request is there, the losses are counted and dated, and those that they touched are marked."""
    assert run_state(server.run) == "sealed"
    with Session(server.run) as session:
        told = report(session)
        marked = session.query("SELECT request_id, incomplete FROM latency").to_pylist()
    assert told["requests"]["ok"] == told["requests"]["total"] == asked + 2
    gaps = told["recorder"]["gaps"]
    assert sum(gap["lost"] for gap in gaps) == told["recorder"]["drops"] > 0
    assert all(0 < gap["since"] < gap["until"] for gap in gaps)
    incomplete = {row["request_id"]: row["incomplete"] for row in marked}
    assert not incomplete["before"]
    assert not incomplete["after"]
    assert any(incomplete.values())


def test_the_disk_of_this_test_is_small(disk: Path) -> None:
    """Or the other test would prove nothing."""
    room = os.statvfs(disk)
    assert room.f_blocks * room.f_frsize == DISK_MB * 2**20
    fill(disk / "ballast")
    assert os.statvfs(disk).f_bavail == 0
