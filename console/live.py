"""`tailtrace tail` on a terminal: a feed in a thread of its own, and the console that watches it."""

import asyncio
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from console.keymap import read_keymap
from console.leaving import exit_at_once
from console.watching import Standing, Watch
from recorder.errors import UserError
from recorder.run import run_state
from recorder.tail.client import Connected, Disconnected, Event, Finished, Pulse, TailClient
from recorder.tail.history import History
from recorder.tail.mirror import Mirror
from recorder.tail.wire import Batch, Missed, Start

_LOOK_S: Final = 0.5
_LEAVE_S: Final = 5.0


class Feed(Protocol):
    """Keeps `standing` true in a thread, from `begin` to `end`."""

    def begin(self) -> None:
        """Start; returns when there is something to show. Raises UserError where there will not be."""
        ...

    def standing(self) -> Standing:
        """How the run stands; cheap."""
        ...

    def end(self) -> None:
        """Stop, and clean up."""
        ...


class LocalFeed(Feed):
    """A run on this machine: the console reads it as it lies, the feed only looks how far it has come."""

    def __init__(self, run: Path) -> None:
        self._history = History(run)
        self._run = run
        self._standing = Standing(run, {})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="feed", daemon=True)

    def begin(self) -> None:
        """Look once at once."""
        self._look()
        self._thread.start()

    def standing(self) -> Standing:
        """As it was seen last."""
        return self._standing

    def end(self) -> None:
        """Stop looking."""
        self._over.set()
        self._thread.join(_LEAVE_S)
        self._history.close()

    def _look_on(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        self._history.discover()
        state = run_state(self._run)
        ends = self._history.ends(self._history.sealed())
        word = "" if state == "recording" else f"the run is {state}" if state == "sealed" else "the recorder has gone"
        self._standing = replace(self._standing, ends=ends, word=word, over=state != "recording")


class RemoteFeed(Feed):
    """A tail elsewhere: what it brings is mirrored into a folder here, which the console reads as any other run."""

    def __init__(self, url: str, token: str | None, start: Start) -> None:
        self._client = TailClient(url, token=token, start=start)
        self._folder = tempfile.TemporaryDirectory(prefix="tailtrace-tail-")
        self._mirrors: list[Mirror] = []
        self._standing: Standing | None = None
        self._failure: UserError | None = None
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._following: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Connect, and wait for the run's name."""
        self._thread.start()
        self._ready.wait()
        if self._standing is None:
            self.end()
            raise self._failure or UserError("the tail ended before it began")

    def standing(self) -> Standing:
        """As of the last beat."""
        assert self._standing is not None
        return self._standing

    def end(self) -> None:
        """Leave, and remove the mirror."""
        if self._following is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._following.cancel)
        self._thread.join(_LEAVE_S)
        self._folder.cleanup()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_cancelled())
        self._ready.set()

    async def _until_cancelled(self) -> None:
        self._following = asyncio.ensure_future(self._follow())
        await asyncio.wait([self._following])
        if self._standing is not None and not self._standing.over:
            self._mirrors[-1].close(sealed=False)
        if not self._following.cancelled() and (error := self._following.exception()):
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """What can't be helped is said, on the screen where there is one."""
        self._failure = error if isinstance(error, UserError) else UserError(f"the tail has ended: {error}")
        if self._standing is not None:
            self._standing = replace(self._standing, word=str(self._failure))

    async def _follow(self) -> None:
        async for event in self._client.events():
            self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Connected):
            self._greet(event)
            return
        assert self._standing is not None
        mirror = self._mirrors[-1]
        match event:
            case Batch():
                mirror.take(event)
            case Pulse():
                mirror.flush()
                self._standing = replace(
                    self._standing,
                    ends=dict(self._client.position or {}),
                    late_ns=event.late_ns,
                    behind=event.behind,
                    word="",
                )
            case Missed():
                self._standing = replace(self._standing, missed=self._standing.missed + event.count())
            case Disconnected() if not self._standing.over:
                self._standing = replace(self._standing, word="cut off, trying again")
            case Finished():
                self._finish(mirror, sealed=event.state == "sealed")

    def _finish(self, mirror: Mirror, *, sealed: bool) -> None:
        """The run has ended there, or its recorder has left it open for the next one. Another run may still come."""
        assert self._standing is not None
        word = "the run is sealed, waiting for another" if sealed else "the recorder has left, waiting for the next"
        if sealed:
            mirror.close(sealed=True)
        else:
            mirror.flush()
        self._standing = replace(self._standing, ends=dict(self._client.position or {}), word=word, over=sealed)

    def _greet(self, event: Connected) -> None:
        """A stream begins or goes on. Another run gets a mirror of its own."""
        if not self._mirrors or event.before is not None:
            if self._standing is not None and not self._standing.over:
                self._mirrors[-1].close(sealed=True)
            self._mirrors.append(Mirror(Path(self._folder.name), event.info))
            self._standing = Standing(self._mirrors[-1].run, {})
        self._ready.set()


def watch(target: str | Path, token: str | None, start: Start) -> int:
    """Show a run live until the person leaves."""
    from console.app import Tailtrace
    from console.book import Book

    keymap = read_keymap()
    feed: Feed = LocalFeed(target) if isinstance(target, Path) else RemoteFeed(target, token, start)
    feed.begin()
    try:
        app = Tailtrace([Book(feed.standing().run)], "timeline", watch=Watch(feed.standing), keymap=keymap)
        try:
            app.run()
        finally:
            quiet = app.leave(_LEAVE_S)
    finally:
        feed.end()
    code = app.return_code or 0
    if not quiet:
        exit_at_once(code)
    return code
