"""`tailtrace open` as a process: what it refuses, how it leaves the terminal, what it does not import."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recorder.schema import SCHEMA_VERSION
from tests.console.tui_runs import empty, one_request

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
TAKE_SCREEN = b"\x1b[?1049h"
LEAVE_SCREEN = b"\x1b[?1049l"
HIDE_CURSOR = b"\x1b[?25l"
SHOW_CURSOR = b"\x1b[?25h"
NO_MOUSE = (b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?1006l")


class OnTerminal:
    """A Python program on a terminal of its own."""

    def __init__(self, *argv: str) -> None:
        self.pid, self.terminal = pty.fork()
        self.seen = b""
        if self.pid == 0:
            os.chdir(ROOT)
            os.execv(sys.executable, [sys.executable, *argv])

    def read(self) -> bool:
        """Take in what the program wrote; False when it has gone."""
        ready, _, _ = select.select([self.terminal], [], [], 0.2)
        if not ready:
            return True
        try:
            piece = os.read(self.terminal, 65_536)
        except OSError:
            return False
        self.seen += piece
        return bool(piece)

    def until(self, words: bytes) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.seen:
            assert self.read(), f"it ended without {words!r}: {self.seen[-2000:]!r}"
            assert time.monotonic() < deadline, f"{words!r} never came: {self.seen[-2000:]!r}"

    def press(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def end(self) -> int:
        """Wait for its end: its exit code."""
        deadline = time.monotonic() + DEADLINE_S
        while self.read():
            assert time.monotonic() < deadline, "it never ended"
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no/such/run"], "no/such/run is no run"),
        (["."], "no run.json"),
        (["RUN", "no/such/run"], "no/such/run is no run"),
        (["NEWER"], "was written by schema 99"),
        (["ws://localhost:1/tail"], "`tailtrace tail ws://localhost:1/tail` shows it"),
        (["RUN", "--slo-ms", "0"], "--slo-ms must be above 0"),
        (["RUN", "--slo-ms", "nan"], "--slo-ms must be above 0"),
    ],
)
def test_what_can_not_be_shown_is_refused_before_the_screen_is_taken(
    tmp_path: Path, argv: list[str], says: str
) -> None:
    runs = {"RUN": one_request(tmp_path), "NEWER": empty(tmp_path)}
    info = runs["NEWER"] / "run.json"
    info.write_text(info.read_text().replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99'))
    console = OnTerminal("-m", "console.cli", "open", *(str(runs.get(word, word)) for word in argv))
    assert console.end() == 2
    assert says.encode() in console.seen
    assert b"Traceback" not in console.seen
    assert TAKE_SCREEN not in console.seen


def test_without_a_terminal_it_says_what_to_do_instead(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "console.cli", "open", str(one_request(tmp_path))]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "tailtrace report RUN" in answer.stderr


def test_it_opens_and_gives_the_terminal_back(tmp_path: Path) -> None:
    console = OnTerminal("-m", "console.cli", "open", str(one_request(tmp_path)))
    console.until(b"TTFT")
    console.press(b"2")
    console.until(b"Pass")
    console.press(b"q")
    assert console.end() == 0
    assert LEAVE_SCREEN in console.seen
    assert SHOW_CURSOR in console.seen


@pytest.mark.parametrize("command", ["open", "tail"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_console_that_is_told_to_end_gives_the_terminal_back(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    console = OnTerminal("-m", "console.cli", command, str(one_request(tmp_path)))
    console.until(b"TTFT" if command == "open" else b"Pass")
    os.kill(console.pid, number)
    assert console.end() == 128 + number
    last = console.seen[console.seen.index(HIDE_CURSOR) :]
    assert all(words in last for words in (LEAVE_SCREEN, SHOW_CURSOR, *NO_MOUSE))
    assert b"Traceback" not in console.seen


def test_a_console_whose_terminal_has_gone_ends(tmp_path: Path) -> None:
    console = OnTerminal("-m", "console.cli", "open", str(one_request(tmp_path)))
    console.until(b"TTFT")
    os.close(console.terminal)
    deadline = time.monotonic() + DEADLINE_S
    while (ended := os.waitpid(console.pid, os.WNOHANG))[0] == 0:
        assert time.monotonic() < deadline, "nobody can see it any more, and it is there"
        time.sleep(0.05)
    assert os.waitstatus_to_exitcode(ended[1]) == 128 + signal.SIGHUP


BROKEN = """
import sys
from console.cli import main
from console.screens.timeline import TimelineScreen
def broken(self, follow=False):
    raise RuntimeError("planted: the timeline broke")
TimelineScreen.draw = broken
sys.exit(main(["open", sys.argv[1], "--screen", "timeline"]))
"""


def test_a_console_that_fails_gives_the_terminal_back_and_says_why(tmp_path: Path) -> None:
    console = OnTerminal("-c", BROKEN, str(one_request(tmp_path)))
    console.until(b"planted")
    assert console.end() == 1
    assert console.seen.index(LEAVE_SCREEN) < console.seen.index(b"planted"), "the words are on the normal screen"
    assert SHOW_CURSOR in console.seen


ANSWERED_TOO_LATE = """
import sys, threading
from console.app import Tailtrace
from console.cli import main
from console.screens import overview
from console.screens.base import RunScreen
asking, gone = threading.Event(), threading.Event()
def late(*_):
    asking.set()
    gone.wait()
def broken(self, health):
    asking.wait()
    raise RuntimeError("planted: the screen broke")
def leave(self, timeout_s):
    gone.set()
    for thread in threading.enumerate():
        if thread.name.startswith("ask "):
            thread.join()
    return True
overview._read_numbers, RunScreen._healthy, Tailtrace.leave = late, broken, leave
sys.exit(main(["open", sys.argv[1]]))
"""


def test_an_answer_for_a_console_that_failed_is_dropped_without_a_word(tmp_path: Path) -> None:
    console = OnTerminal("-c", ANSWERED_TOO_LATE, str(one_request(tmp_path)))
    console.until(b"planted")
    assert console.end() == 1
    after = console.seen[console.seen.index(LEAVE_SCREEN) :]
    assert after.count(b"Traceback") == 1, after.decode("utf-8", "replace")
    assert b"NoActiveAppError" not in after


def test_the_console_loads_no_engine_and_no_torch(tmp_path: Path) -> None:
    run = one_request(tmp_path)
    script = f"""
import asyncio, sys
from pathlib import Path
from console.commands.open import build
from tests.console.screens import settle
async def main():
    app = build([Path({str(run)!r})])
    async with app.run_test() as pilot:
        await settle(pilot)
asyncio.run(main())
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(sorted(loaded & {{"torch", "engine", "transformers", "aiohttp", "plotext"}}))
"""
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["playhead", "timeline", "keys", "theme", "replay", "asking", "book"])
def test_what_decides_knows_no_widget(module: str) -> None:
    script = f"import sys, console.{module}; print('textual' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
