"""What the tests of the screens share: waiting for answers, and the screen as text."""

import asyncio
import difflib
import os
import time
from pathlib import Path

from textual.pilot import Pilot

from console.app import Tailtrace
from console.asking import busy

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "TAILTRACE_UPDATE_SNAPSHOTS"
_DEADLINE_S = 60


async def settle(pilot: Pilot[None]) -> None:
    """Wait until no question is being answered and everything that was answered is on screen.

    An answer may lead to another question: it is quiet once it has been twice, with all messages handled in between.
    """
    deadline = time.monotonic() + _DEADLINE_S
    quiet = 0
    while quiet < 2:
        await pilot.pause()
        quiet = 0 if busy() else quiet + 1
        assert time.monotonic() < deadline, "a question was never answered"
        if not quiet:
            await asyncio.sleep(0.005)
    await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and wait for what they ask."""
    await pilot.press(*keys)
    await settle(pilot)


def screen_text(app: Tailtrace) -> str:
    """What is on the screen, one line a row, without blanks at their ends."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def check_snapshot(app: Tailtrace, name: str) -> None:
    """Compare the screen with its file; with the environment variable set, write the file instead."""
    path = SNAPSHOTS / f"{name}.txt"
    seen = screen_text(app)
    if os.environ.get(UPDATE):
        path.write_text(seen, encoding="utf-8")
        return
    assert path.exists(), f"there is no {path.name}; look at the screen, then run with {UPDATE}=1"
    kept = path.read_text("utf-8")
    if seen != kept:
        difference = "\n".join(difflib.unified_diff(kept.splitlines(), seen.splitlines(), "kept", "seen", lineterm=""))
        raise AssertionError(f"{path.name} differs; if that is meant, run with {UPDATE}=1\n{difference}")
