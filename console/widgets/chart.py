"""The timeline drawn as lines: minimap, axis, the workers' strips and the lanes of requests, over one time axis."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from console import theme
from console.lanes import Lanes
from console.ordering import ARRIVAL
from console.timeline import ticks
from console.widgets.cursor import Overlay, column_of
from console.widgets.frame import Frame, Geometry, geometry
from console.widgets.ink import Line, Piece, clean, fit, runs, width_of
from console.widgets.lanelines import lane_line
from console.widgets.minimap import minimap
from console.widgets.runstrips import Drawn

_MARK_ROOM: Final = 12
_HEADROOM: Final = 30


def chart(lanes: Lanes, frame: Frame, width: int, height: int, drawn: Drawn | None = None) -> list[Line]:
    """The whole picture in exactly `height` lines of at most `width` cells. `drawn` keeps strips between frames."""
    shape = geometry(lanes, width, height, compact=frame.compact, worker=frame.worker)
    shown = frame.lanes_of(lanes)
    stretch = range(0) if frame.stretch is None else frame.stretch.columns(frame.window, shape.chart)
    overlay = Overlay(column_of(frame.at, frame.window, shape.chart), stretch)
    lines = [
        *minimap(lanes, frame, shape),
        _axis(frame, shape, len(shown), overlay),
        *_strips(lanes, frame, shape, overlay, drawn or Drawn()),
    ][: shape.strips]
    for index in shown[frame.top : frame.top + shape.rows]:
        lines.append(lane_line(lanes, lanes.lane(int(index)), frame, shape, overlay))
    while len(lines) < height:
        lines.append([(" " * shape.gutter, "text"), *overlay.over([(" ", "text")] * shape.chart)])
    return lines


def chart_of(lanes: Lanes, frame: Frame, width: int, count: int) -> list[Line]:
    """The picture without a screen: as high as it has to be for its first `count` lanes."""
    height = count + _HEADROOM
    shape = geometry(lanes, width, height, worker=frame.worker)
    return chart(lanes, frame, width, height)[: shape.strips + count]


def _axis(frame: Frame, shape: Geometry, alive: int, overlay: Overlay) -> Line:
    """Round times, marks, and the ends of the selected stretch; the gutter counts the lanes of the window."""
    text = [" "] * shape.chart
    for tick in ticks(frame.window, shape.chart):
        label = f"╷{tick.label}"
        if tick.column >= 0 and tick.column + len(label) <= shape.chart:
            text[tick.column : tick.column + len(label)] = label
    cells: list[Piece] = [(char, "muted") for char in text]
    for mark in frame.marks:
        _put(cells, column_of(mark.at, frame.window, shape.chart), clean(mark.label))
    _bracket(cells, overlay.stretch)
    if overlay.head is not None:
        cells[overlay.head] = ("▼", theme.PLAYHEAD.style)
    room = shape.gutter - 1
    told = _counted(frame, shape, alive)
    label = fit(next((words for words in told if len(words) <= room), told[-1]), room) + " "
    return [(label[: shape.gutter], "muted"), *runs(cells)]


def _counted(frame: Frame, shape: Geometry, alive: int) -> Sequence[str]:
    """Which of the lanes are on screen, in what order where it is not the usual one, and how many workers are not.

    In ever fewer words, for a gutter that has less room.
    """
    unseen = f" +{shape.unseen}w" if shape.unseen else ""
    if not alive:
        return [f" no requests{unseen}"]
    last = min(frame.top + shape.rows, alive)
    order = "" if frame.order == ARRIVAL else f" ↓{frame.order}"
    first, rest = f" {frame.top + 1}", f"{unseen}{order}"
    return [f"{first}-{last} of {alive}{rest}", f"{first}-{last}/{alive}{rest}", f"{first}/{alive}{rest}"]


def _bracket(cells: list[Piece], stretch: range) -> None:
    """The selected stretch as a line with two ends: it shows without colour too."""
    for column in stretch:
        cells[column] = ("═" if cells[column][0] in {" ", "╷"} else cells[column][0], "strong on.line")
    if len(stretch) > 1:
        cells[stretch[0]], cells[stretch[-1]] = ("╞", "strong on.line"), ("╡", "strong on.line")


def _put(cells: list[Piece], column: int | None, label: str) -> None:
    """A mark over the ticks, with as much of its label as fits and is no longer than a tick's."""
    if column is None:
        return
    room = min(len(cells) - column - 1, _MARK_ROOM)
    text = "◆" + fit(label, min(width_of([(label, "")]), room))
    if width_of([(text, "")]) != len(text):
        text = "◆"  # wide characters would push the axis aside
    cells[column : column + len(text)] = [(char, "phase.return bold") for char in text]


def _strips(lanes: Lanes, frame: Frame, shape: Geometry, overlay: Overlay, drawn: Drawn) -> Iterator[Line]:
    for band in shape.bands:
        strip = drawn.strip(lanes, band, frame, shape)
        yield from replace(strip, rows=[overlay.over(row) for row in strip.rows]).lines(shape.gutter)


def legend(width: int) -> Line:
    """Which glyph is which phase, as many as fit."""
    line: Line = [(" ", "text")]
    room = width - 1
    for phase, look in theme.PHASES.items():
        name = phase.replace("_", " ")
        if (room := room - len(name) - 4) < 0:
            break
        line += [(look.glyph, look.style), (f" {name}  ", "muted")]
    return line
