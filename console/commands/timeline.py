"""`tailtrace timeline RUN [--from TIME --to TIME --width N --sort ORDER] [--json]`: the lanes of a run as lines."""

import argparse
import sys
from dataclasses import dataclass
from typing import Final

from console.commands import FILTER_HELP, RUN_HELP
from console.filter import Filter
from console.filter_language import parse_filter
from console.jsonout import write_json
from console.lanes import Lanes, load_lanes, read_phases
from console.lived import Lived, lived
from console.ordering import ARRIVAL, ORDERS, order_of
from console.replay import Replay
from console.seeking import HELP, parse_seek
from console.selecting import Stretch
from console.session import Session
from console.sheet import sheet
from console.text.lived import lived_lines
from console.text.paint import show, terminal_width
from console.widgets.chart import chart_of, legend
from console.widgets.frame import Frame
from console.widgets.ink import Line
from recorder.copies import local
from recorder.errors import UserError

_LANES: Final = 100
_NARROWEST: Final = 40
_WIDEST: Final = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("path", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--from", dest="since", metavar="TIME", help=f"where the window begins: {_escaped(HELP)}")
    parser.add_argument("--to", dest="until", metavar="TIME", help="where it ends, in the same words")
    parser.add_argument("--at", metavar="TIME", help="where the playhead stands (default: the window's end)")
    parser.add_argument("--sort", choices=ORDERS, default=ARRIVAL, help="lanes by arrival, latency or time in a phase")
    parser.add_argument("--width", type=int, metavar="N", help="columns of the picture (default: the terminal's)")
    parser.add_argument("--lanes", type=int, default=_LANES, metavar="N", help=f"most lanes (default {_LANES}; 0: all)")
    parser.add_argument("--slo-ms", type=float, metavar="MS", help="end to end over this is slow (default: p95 and up)")
    parser.add_argument("--filter", metavar="TEXT", help=FILTER_HELP)
    parser.add_argument("--json", action="store_true", help="print rows, strips and marks as JSON; times in ns")


@dataclass(frozen=True)
class Look:
    """What somebody wants to see of a run: a frame of its lanes, and who was alive in it."""

    lanes: Lanes
    frame: Frame
    lived: Lived


def run(args: argparse.Namespace) -> int:
    """Print the lanes of the window, its strips, and what those alive in it went through."""
    width = _width(args)
    only = parse_filter(args.filter or "")
    with Session(local(args.path)) as session:
        look, name = _look(session, args, only), session.name
    if args.json:
        document = sheet(look.lanes, look.frame, width, args.lanes or None)
        write_json(sys.stdout, {"run": name, "filter": str(only), **document, "selected": look.lived})
    else:
        show(_lines(look, width, args.lanes))
    return 0


def _width(args: argparse.Namespace) -> int:
    if args.lanes < 0:
        raise UserError(f"--lanes must be 0 or more, got {args.lanes}")
    if args.slo_ms is not None and not args.slo_ms > 0:
        raise UserError(f"--slo-ms must be above 0, got {args.slo_ms:g}")
    width: int = terminal_width() if args.width is None else args.width
    if not _NARROWEST <= width <= _WIDEST:
        raise UserError(f"--width must be between {_NARROWEST} and {_WIDEST}, got {width}")
    return width


def _look(session: Session, args: argparse.Namespace, only: Filter) -> Look:
    """A frame as the screen makes one."""
    with session.connect() as cursor:
        lanes = load_lanes(session, cursor)
        lanes = lanes.under_filter(session, only, cursor)
    replay = Replay.of(lanes, None if args.slo_ms is None else round(args.slo_ms * 1e6))
    clock = session.tables.info.clock
    places = replay.places(0, clock.wall_ns - clock.mono_ns if clock.kind == "monotonic" else None)
    low, high = lanes.window.low, lanes.window.high
    since, until = (
        default if text is None else min(max(parse_seek(text, places), low), high)
        for text, default in ((args.since, low), (args.until, high))
    )
    if since >= until:
        raise UserError(f"--from {args.since or 'the beginning'} is not before --to {args.until or 'the end'}")
    replay.window, replay.order, replay.selected = lanes.window.between(since, until), order_of(lanes, args.sort), None
    replay.seek(until if args.at is None else parse_seek(args.at, places), 0)
    with session.connect() as cursor:
        found = lived(session, only, Stretch(since, until).term(low), cursor)
    look = Look(lanes, replay.frame(0, 0), found)
    _read_phases(session, look, args.lanes or None)
    return look


def _read_phases(session: Session, look: Look, most: int | None) -> None:
    """Have the phases of the lanes that will be printed, where the run has too many to hold them all."""
    for lane in look.frame.lanes_of(look.lanes)[:most]:
        look.lanes.spans(int(lane))
    wanted = look.lanes.phases.wanted()
    if wanted:
        with session.connect() as cursor:
            look.lanes.phases.learn(wanted, read_phases(look.lanes, wanted, session, cursor))


def _lines(look: Look, width: int, most: int) -> list[Line]:
    """The picture, what the glyphs mean, and the account of those in it."""
    shown = len(look.frame.lanes_of(look.lanes))
    count = min(shown, most or shown)
    lines = [*chart_of(look.lanes, look.frame, width, count), legend(width), []]
    if count < shown:
        lines.insert(-1, [(f" and {shown - count:,} lanes more: --lanes 0 prints all", "muted")])
    stretch = Stretch(look.frame.window.start, look.frame.window.end)
    return [*lines, *lived_lines(look.lived, stretch, look.lanes.window.low, width, title="Window")]


def _escaped(text: str) -> str:
    """As argparse wants it."""
    return text.replace("%", "%%")
