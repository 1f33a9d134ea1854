"""What the tests of the screens share: waiting for answers, and the screen as text."""

import asyncio
import difflib
import os
import time
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from console.app import Tailtrace
from console.asking import busy

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "TAILTRACE_UPDATE_SNAPSHOTS"
_DEADLINE_S = 60
_TURNS = 5


async def settle(pilot: Pilot[None]) -> None:
    """Wait until no question is being answered and everything that was answered is on screen.

    An answer may lead to another question: it is quiet once nobody asks after all messages have been handled.
    """
    deadline = time.monotonic() + _DEADLINE_S
    await handled(pilot.app)
    while busy():
        assert time.monotonic() < deadline, "a question was never answered"
        await asyncio.sleep(0.001)
        if not busy():
            await handled(pilot.app)


async def handled(app: App[Any]) -> None:
    """Wait until every message is handled, and those that their handling sends, and what they change is on screen.

    Looking twice, because handling one thing may change another. What a thread posted takes a few turns of the loop
    until it is in a queue: a callback, a task, and the queue itself.
    """
    for _turn in range(_TURNS):
        await asyncio.sleep(0)
    quiet = 0
    while quiet < 2 and app._running:
        quiet = 0 if await _one_round(app) else quiet + 1


async def _one_round(app: App[Any]) -> bool:
    """Let everybody handle what waits for them, and draw; whether more messages wait by now, or a new size."""
    await asyncio.sleep(0)
    if not await Pilot(app)._wait_for_screen():
        return False
    app.screen._on_timer_update()
    if app._resize_event is not None or _is_drawing(app.screen):
        return True
    return any(not node._message_queue.empty() or node._next_callbacks for node in (app, *app._registry))


def _is_drawing(screen: Screen[Any]) -> bool:
    """Whether a style, a place or a picture has changed that is not on screen yet: each becomes the next message."""
    return bool(screen._dirty_widgets or screen._callbacks) or any(
        widget._refresh_styles_required
        or widget._scroll_required
        or widget._repaint_required
        or widget._layout_required
        or widget._recompose_required
        for widget in (screen, *screen.query("*"))
    )


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, and wait for what each of them asks."""
    for key in keys:
        await pilot.press(key)
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
