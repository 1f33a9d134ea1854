"""`tailtrace tail URL|RUN [--headless] [--json]`: what a running engine does, as it does it."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from console.jsonout import finite
from console.tailing import TABLES, Teller, Told, as_json
from console.text.paint import colour_of, is_dark, paint
from console.text.tail import told_line
from recorder.errors import UserError
from recorder.run import RunInfo, load_info, run_state
from recorder.tail.client import Connected, Disconnected, Event, Finished, Pulse, TailClient, is_url
from recorder.tail.wire import Batch, Missed, Start

_LATE_NS: Final = 10**9
"""Further behind than this is worth saying."""
_LIVE: Final = {"http": "ws", "https": "wss"}
"""Web addresses in the scheme of a tail: people copy the address of a server as they see it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "target", metavar="URL|RUN", help="ws://HOST:PORT/tail of a server (http:// too), or the folder of a run"
    )
    parser.add_argument("--headless", action="store_true", help="print a line per finished request instead of a screen")
    parser.add_argument("--json", action="store_true", help="as --headless, with a JSON object a line; times in ns")
    parser.add_argument("--token", help="token of a server on another machine: see RUN/tail.json there")
    parser.add_argument(
        "--from",
        dest="start",
        choices=("start", "now"),
        help="where to begin (default: now, and the start for a run that has ended or a screen)",
    )


def run(args: argparse.Namespace) -> int:
    """Follow until the run ends, or for ever where an address is followed. What is wrong is said before a screen."""
    target = target_of(args.target)
    if isinstance(target, Path):
        load_info(target)
    if args.headless or args.json:
        client = TailClient(target, token=args.token, start=_start(target, args.start), tables=TABLES)
        asyncio.run(_print(client, Printer(as_lines=not args.json)))
        return 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("tail needs a terminal; --headless prints finished requests anywhere, --json for programs")
    from console.live import watch

    return watch(target, args.token, args.start or "start")


def target_of(given: str) -> str | Path:
    """The address of a tail, or the folder of a run. Raises UserError for a URL that nobody serves a tail at."""
    scheme, colon, rest = given.partition("://")
    if not colon:
        return Path(given)
    url = f"{_LIVE.get(scheme, scheme)}://{rest}"
    if not is_url(url):
        raise UserError(
            f"{given} can't be followed: give the ws://HOST:PORT/tail that a server prints when it starts, or the"
            f" folder of a run; `tailtrace open {given}` shows a run that lies elsewhere, as it is now"
        )
    return url


def _start(target: str | Path, wanted: Start | None) -> Start:
    if wanted:
        return wanted
    return "start" if isinstance(target, Path) and run_state(target) != "recording" else "now"


async def _print(client: TailClient, printer: "Printer") -> None:
    async for event in client.events():
        printer.take(event)


class Printer:
    """Finished requests to stdout, everything else that happens to stderr."""

    def __init__(self, *, as_lines: bool) -> None:
        self._as_lines = as_lines
        self._colour = colour_of(sys.stdout)
        self._dark = is_dark()
        self._info: RunInfo | None = None
        self._teller = Teller()
        self._late = False
        self._drops = 0

    def take(self, event: Event) -> None:
        """Print what it tells."""
        match event:
            case Batch():
                self._print(self._teller.take(event))
                if event.unreadable:
                    _say(f"{event.unreadable:,} records of {event.ring} were not kept or can't be read")
            case Connected():
                self._begin(event)
            case Pulse():
                self._pulse(event)
            case Missed():
                _say(f"too slow: skipped ahead, missed {event.count():,} records ({_ranges(event)})")
            case Disconnected():
                _say(f"cut off ({event.why}); trying again in {event.retry_s:.1f} s")
            case Finished():
                self._print(self._teller.settle())
                _say(
                    {"sealed": "the run is sealed", "killed": "the run was killed; this is all it has"}.get(
                        event.state, "the recorder has left the run open"
                    )
                )

    def _begin(self, event: Connected) -> None:
        if event.before is not None:
            self._print(self._teller.settle())
            self._teller = Teller()
            _say(f"another run is recorded there now: {event.info.run_id} after {event.before}")
        self._info = event.info
        self._drops = 0
        _say(f"following {event.info.run_id} at {event.where}")

    def _pulse(self, pulse: Pulse) -> None:
        if pulse.behind == 0:
            self._print(self._teller.settle())
        late = pulse.late_ns > _LATE_NS or pulse.behind > 0
        if late:
            _say(f"{pulse.late_ns / 1e9:.1f} s late, {pulse.behind:,} records behind")
        elif self._late:
            _say("at the live edge again")
        self._late = late
        drops = sum(pulse.drops.values())
        if drops > self._drops:
            _say(f"{drops - self._drops:,} records were dropped by full rings: requests of this time are incomplete")
        self._drops = max(drops, self._drops)

    def _print(self, finished: Iterable[Told]) -> None:
        assert self._info is not None
        lines = [self._line(told, self._info) for told in finished]
        if lines:
            sys.stdout.write("".join(lines))
            sys.stdout.flush()

    def _line(self, told: Told, info: RunInfo) -> str:
        if self._as_lines:
            return paint([told_line(told, info.clock)], self._colour, self._dark)
        return json.dumps(finite(as_json(told, info.run_id)), allow_nan=False) + "\n"


def _ranges(missed: Missed) -> str:
    return ", ".join(f"{ring} {first} to {last - 1}" for ring, (first, last) in sorted(missed.ranges.items()))


def _say(text: str) -> None:
    sys.stderr.write(f"tailtrace tail: {text}\n")
    sys.stderr.flush()
