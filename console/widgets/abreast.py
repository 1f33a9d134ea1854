"""Several runs side by side in lines: a strip of passes each, then every request once per run, on one axis. Pure."""

from collections.abc import Iterator
from typing import Final

from console import theme
from console.abreast import Abreast
from console.timeline import lane_cells, ticks
from console.widgets.ink import Line, Piece, clean, fit, instant, pad, runs

_GUTTER: Final = 26
_NARROW: Final = 16


def gutter_of(width: int) -> int:
    """Cells at the left: who is in the row."""
    return _GUTTER if width >= 100 else _NARROW


def abreast_lines(view: Abreast, now: int, width: int, height: int) -> list[Line]:
    """The picture of this instant in at most `height` lines."""
    gutter = gutter_of(width)
    room = width - gutter
    if room < 4:
        return []
    at = view.playhead.position(now)
    head = view.window.column(at, room)
    lines = [_axis(view, at, gutter, room)]
    for place in range(len(view.runs)):
        strip = _with_head(_strip(view, place, room), head)
        lines.append([*pad(_run_label(view, place, at), gutter), *strip])
    for row in view.scroll((height - len(lines)) // len(view.runs)):
        lines += _request(view, row, head, gutter, room)
    return lines[:height]


def _axis(view: Abreast, at: int, gutter: int, room: int) -> Line:
    cells: list[Piece] = [("─", "line")] * room
    for tick in ticks(view.window, room):
        for offset, char in enumerate(f"┬{tick.label} "):
            if tick.column + offset < room:
                cells[tick.column + offset] = (char, "muted")
    return [(fit(f" {instant(at, view.window.span)}", gutter), "strong"), *runs(cells)]


def _run_label(view: Abreast, place: int, at: int) -> Line:
    """Which run, and how many requests are in flight at the playhead."""
    look = theme.RUNS[place]
    return [(f" {look.glyph} ", f"{look.style} bold"), (f"{view.flying(place, at):,} in flight", "muted")]


def _strip(view: Abreast, place: int, room: int) -> list[Piece]:
    """What the first worker of a run did."""
    passes = next(iter(view.runs[place].passes.values()), None)
    kinds = passes.busiest(view.of_run(place), room) if passes is not None else [None] * room
    return [(" ", "text") if kind is None else (theme.STEPS[kind].glyph, theme.STEPS[kind].style) for kind in kinds]


def _request(view: Abreast, row: int, head: int, gutter: int, room: int) -> Iterator[Line]:
    """One request, a line a run."""
    chosen = row == view.selected
    for place, index in enumerate(view.rows.lanes[row]):
        look = theme.RUNS[place]
        name = fit(clean(view.rows.names[row]) if not place else "", gutter - 4)
        gutter_line: Line = [
            ("▸" if chosen and not place else " ", "accent bold"),
            (name, "strong bold" if chosen else "text"),
            (f" {look.glyph} ", look.style),
        ]
        yield [*pad(gutter_line, gutter), *_with_head(_lane(view, place, index, room), head)]


def _lane(view: Abreast, place: int, index: int | None, room: int) -> list[Piece]:
    if index is None:
        return [("┄", "faint")] * room
    phases = lane_cells(view.runs[place].spans(index), view.of_run(place), room)
    looks = [theme.phase_look(phase) if phase is not None else None for phase in phases]
    return [(" ", "text") if look is None else (look.glyph, look.style) for look in looks]


def _with_head(cells: list[Piece], head: int) -> Line:
    """The cells with the playhead over them."""
    if 0 <= head < len(cells):
        cells[head] = (theme.PLAYHEAD.glyph, theme.PLAYHEAD.style)
    return runs(cells)
