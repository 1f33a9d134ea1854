"""A real server for tests: `tailtrace serve` in processes of its own, with random weights of the tiny preset."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from recorder.check import check
from recorder.tables import RunTables, open_tables

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0


def until(what: str, holds: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Poll until it holds; fails with `what` when it does not come true.

    Looking may read a run: it rests for as long as it looked, so that the server has the core meanwhile.
    """
    looked = time.monotonic()
    deadline = looked + deadline_s
    while not holds():
        now = time.monotonic()
        assert now < deadline, f"still not: {what}"
        time.sleep(max(0.02, now - looked))
        looked = time.monotonic()


def command(*arguments: object) -> list[str]:
    """The command line of `tailtrace` from this checkout."""
    return [sys.executable, "-m", "console.cli", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


class Served:
    """One running server. Its words on stderr are in `log`."""

    def __init__(self, folder: Path, *arguments: object, toml: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.runs = folder / "runs"
        self.log = folder / "stderr.txt"
        config = folder / "config.toml"
        config.write_text(toml)
        line = command("serve", "--model", "tiny", "--load-format", "dummy", "--device", "cpu", "--port", 0)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*line, "--config", str(config), "--runs", str(self.runs), *map(str, arguments)],
                stderr=log,
                cwd=folder,
                env=environment(),
            )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def _told(self, pattern: str) -> str:
        found = re.search(pattern, self.said)
        assert found, self.said
        return found[1]

    def await_ready(self) -> "Served":
        until("the server is ready", lambda: "recording " in self.said or self.process.poll() is not None)
        assert self.process.poll() is None, self.said
        return self

    @property
    def url(self) -> str:
        return self._told(r"at (http://\S+)")

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    @property
    def run(self) -> Path:
        return Path(self._told(r"recording to (\S+)"))

    @property
    def tables(self) -> RunTables:
        return open_tables(self.run)

    def child(self, module: str) -> psutil.Process:
        """The worker (`engine.worker`) or the recorder process."""
        children = psutil.Process(self.process.pid).children()
        (found,) = [child for child in children if module in child.cmdline()]
        return found

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def stop(self) -> int:
        """Interrupt, and wait for the end."""
        if self.process.poll() is None:
            self.interrupt()
        return self.process.wait(DEADLINE_S)

    def end(self) -> None:
        """For clean-up: nothing is left behind, whatever the test did."""
        if self.process.poll() is None:
            self.kill_all()

    def kill_all(self) -> None:
        """SIGKILL for front end, worker and recorder at once."""
        family = psutil.Process(self.process.pid).children()
        for pid in [self.process.pid, *(child.pid for child in family)]:
            os.kill(pid, signal.SIGKILL)
        psutil.wait_procs(family, timeout=DEADLINE_S)
        self.process.wait(DEADLINE_S)

    def rows(self, table: str) -> list[dict[str, object]]:
        return list(self.tables.table(table).to_pylist())

    def row_of(self, request_id: str) -> dict[str, object]:
        """The latest row of a request in `requests`."""
        (row,) = [row for row in self.rows("requests") if row["request_id"] == request_id]
        return row

    def await_status(self, request_id: str, statuses: Sequence[str]) -> dict[str, object]:
        """The row of a request once it stands so."""

        def stands() -> bool:
            return any(r["request_id"] == request_id and r["status"] in statuses for r in self.rows("requests"))

        until(f"{request_id} is {statuses}", stands)
        return self.row_of(request_id)


@contextmanager
def serving(folder: Path, *arguments: object, toml: str = "") -> Iterator[Served]:
    """A server that is ready. At the end it stops in order, unless the test ended it, and its run passes all checks."""
    server = Served(folder, *arguments, toml=toml)
    try:
        yield server.await_ready()
        assert server.process.poll() is not None or server.stop() == 0, server.said
        assert "Traceback" not in server.said
        for run in server.runs.glob("*"):
            assert [found for found in check(open_tables(run)) if not found.ok] == []
    finally:
        server.end()
