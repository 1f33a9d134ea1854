"""The timeline drawn as lines: minimap, axis, the worker's strips and the lanes of requests, over one time axis."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from console import theme
from console.lanes import Lane, Lanes
from console.marks import Marks
from console.timeline import Ints, Window, lane_cells, ticks
from console.widgets.ink import Line, Piece, clean, duration, fit, pad, runs, spark, width_of

_SOLID: Final = frozenset("█▓▒░")
_CROSSED: Final = {"━": "┿", "┄": "┼"}
_MARK_ROOM: Final = 12
WIDE: Final = 100
"""From this width on the gutter also says how each request stands."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture: where the playhead stands, what is shown, what is selected. Drawn once, never changed."""

    at: int
    window: Window
    selected: int | None
    top: int
    slow: frozenset[int] = frozenset()
    marks: Marks = ()


@dataclass(frozen=True, slots=True)
class Geometry:
    """Cells of one picture: `gutter` columns of labels, `chart` columns of time, rows of strips and of lanes."""

    gutter: int
    chart: int
    strips: int
    rows: int

    @classmethod
    def of(cls, width: int, height: int, workers: int) -> "Geometry":
        """How a picture of this size is divided. Any part may be zero."""
        gutter = min(30 if width >= WIDE else 16, max(width // 2, 0))
        strips = min(2 + 3 * max(workers, 1), max(height, 0))
        return cls(gutter, max(width - gutter, 0), strips, max(height - strips, 0))


def geometry(lanes: Lanes, width: int, height: int) -> Geometry:
    """How the picture of a run is divided."""
    return Geometry.of(width, height, len(lanes.passes))


def chart(lanes: Lanes, frame: Frame, width: int, height: int, alive: Ints | None = None) -> list[Line]:
    """The whole picture in exactly `height` lines of at most `width` cells. `alive`: lanes of the window."""
    shape = geometry(lanes, width, height)
    shown = lanes.alive(frame.window) if alive is None else alive
    head = _playhead_column(frame, shape.chart)
    lines = [
        _minimap(lanes, frame, shape),
        _axis(frame, shape, len(shown)),
        *_strips(lanes, frame, shape),
    ][: shape.strips]
    for index in shown[frame.top : frame.top + shape.rows]:
        lines.append(_lane(lanes, lanes.lane(int(index)), frame, shape, head))
    while len(lines) < height:
        lines.append([(" " * shape.gutter, "text"), *_over([(" ", "text")] * shape.chart, head)])
    return lines


def _playhead_column(frame: Frame, width: int) -> int | None:
    return _column(frame.at, frame.window, width)


def _column(t: int, window: Window, width: int) -> int | None:
    """Where an instant is drawn; the window's end is in its last column, so that the end of a run can be pointed at."""
    if t == window.end:
        return width - 1 if width else None
    column = window.column(t, width)
    return column if 0 <= column < width else None


def _over(cells: list[Piece], head: int | None) -> Line:
    """Cells with the playhead drawn over them; a solid cell lends it its colour as ground, a line is crossed."""
    if head is not None and 0 <= head < len(cells):
        glyph, style = cells[head]
        colour = style.partition(" ")[0]
        kept = next((f" {word}" for word in style.split() if word.startswith("on.")), "")
        if glyph in _SOLID and colour in theme.COLOURS:
            cells[head] = (theme.PLAYHEAD.glyph, f"background on.{colour}")
        else:
            cells[head] = (_CROSSED.get(glyph, theme.PLAYHEAD.glyph), theme.PLAYHEAD.style + kept)
    return runs(cells)


def _minimap(lanes: Lanes, frame: Frame, shape: Geometry) -> Line:
    """The whole run in one row: how many requests were in flight, with the window lit."""
    whole = lanes.window
    counts = lanes.flying(shape.chart)
    most = max(counts, default=0) or 1
    first, last = whole.column(frame.window.start, shape.chart), whole.column(frame.window.end - 1, shape.chart)
    cells = [
        (spark(count / most), "accent" if first <= column <= last else "faint") for column, count in enumerate(counts)
    ]
    label = fit(f" run {duration(whole.span)}", shape.gutter - 1) + " "
    head = min(whole.column(frame.at, shape.chart), shape.chart - 1)
    return [(label[: shape.gutter], "muted"), *_over(cells, head)]


def _axis(frame: Frame, shape: Geometry, alive: int) -> Line:
    """Round times; the gutter counts the lanes of the window."""
    text = [" "] * shape.chart
    for tick in ticks(frame.window, shape.chart):
        label = f"╷{tick.label}"
        if tick.column >= 0 and tick.column + len(label) <= shape.chart:
            text[tick.column : tick.column + len(label)] = label
    last = min(frame.top + shape.rows, alive)
    count = f" {frame.top + 1}-{last} of {alive}" if alive else " no requests"
    label = fit(count, shape.gutter - 1) + " "
    head = _playhead_column(frame, shape.chart)
    cells = [(char, "muted") for char in text]
    for mark in frame.marks:
        _put(cells, _column(mark.at, frame.window, shape.chart), clean(mark.label))
    if head is not None:
        cells[head] = ("▼", theme.PLAYHEAD.style)
    return [(label[: shape.gutter], "muted"), *runs(cells)]


def _put(cells: list[Piece], column: int | None, label: str) -> None:
    """A mark over the ticks, with as much of its label as fits and is no longer than a tick's."""
    if column is None:
        return
    room = min(len(cells) - column - 1, _MARK_ROOM)
    text = "◆" + fit(label, min(width_of([(label, "")]), room))
    if width_of([(text, "")]) != len(text):
        text = "◆"  # wide characters would push the axis aside
    cells[column : column + len(text)] = [(char, "phase.return bold") for char in text]


def _strips(lanes: Lanes, frame: Frame, shape: Geometry) -> Iterator[Line]:
    """Three rows a worker: kinds of passes, requests waiting, KV blocks held."""
    head = _playhead_column(frame, shape.chart)
    for worker, passes in lanes.passes.items():
        here = passes.at(frame.at)
        cells = [
            ("┄", "faint") if kind is None else (theme.STEPS[kind].glyph, theme.STEPS[kind].style)
            for kind in passes.busiest(frame.window, shape.chart)
        ]
        kind = passes.kind_at(here) if here is not None else "-"
        yield _labelled(f"worker {worker}" if shape.gutter >= 20 else f"w{worker}", kind, cells, head, shape)
        for name, column, total, style in (
            ("waiting", "waiting", None, "phase.queue"),
            ("KV", "kv_used", "kv_total", "host"),
        ):
            values = passes.columns[column]
            most = int(passes.columns[total].max(initial=0)) if total else int(values.max(initial=0))
            peaks = passes.peaks(values, frame.window, shape.chart)
            cells = [(spark((peak or 0) / most) if most else " ", style) for peak in peaks]
            value = "-" if here is None else f"{values[here]}/{most}" if total else f"{values[here]}"
            yield _labelled(name, value, cells, head, shape)
    if not lanes.passes:
        for name in ("worker", "waiting", "KV"):
            yield _labelled(name, "-", [(" ", "text")] * shape.chart, head, shape)


def _labelled(name: str, value: str, cells: list[Piece], head: int | None, shape: Geometry) -> Line:
    room = max(shape.gutter - 2 - len(name), 0)
    label = [(" " + name, "muted"), (fit(value, room, "right") + " ", "text")]
    return [*pad(label, shape.gutter), *_over(cells, head)]


def _lane(lanes: Lanes, lane: Lane, frame: Frame, shape: Geometry, head: int | None) -> Line:
    ground = " on.cursor" if lane.index == frame.selected else ""
    cells = [
        _lane_cell(phase, dim=(head is not None and column > head) or frame.at < frame.window.start, ground=ground)
        for column, phase in enumerate(lane_cells(lanes.spans(lane.index), frame.window, shape.chart))
    ]
    _mark_end(cells, lane, frame, ground)
    label = [(text, style + ground) for text, style in _lane_label(lanes, lane, frame, shape.gutter)]
    return [*label, *_over(cells, head)]


def _lane_cell(phase: str | None, dim: bool, ground: str) -> Piece:
    if phase is None:
        return " ", f"text{ground}"
    look = theme.phase_look(phase)
    return look.glyph, f"{look.style}{' dim' if dim else ''}{ground}"


def _mark_end(cells: list[Piece], lane: Lane, frame: Frame, ground: str) -> None:
    """An end that was no answer is a glyph of its own, where it happened."""
    column = frame.window.column(max(lane.finish - 1, lane.arrival), len(cells))
    if lane.status == "ok" or not 0 <= column < len(cells):
        return
    look = theme.status_look(lane.status)
    cells[column] = (look.glyph, f"{look.style}{' dim' if frame.at < lane.finish - 1 else ''}{ground}")


def _lane_label(lanes: Lanes, lane: Lane, frame: Frame, gutter: int) -> Line:
    """Cursor, state at the playhead, id; in a wide gutter also its phase then, or what it took."""
    chosen = lane.index == frame.selected
    glyph, style, standing, standing_style = _standing(lanes, lane, frame)
    wide = gutter >= 28
    name_room = max(gutter - 4 - (10 if wide else 0), 0)
    label: Line = [
        ("▸" if chosen else " ", "accent bold"),
        (glyph + " ", style),
        (fit(clean(lane.request_id) or f"#{lane.rid}", name_room), "strong" if chosen else "text"),
    ]
    if wide:
        label.append((fit(standing, 10, "right"), standing_style))
    return pad([*label, (" ", "text")], gutter)


def _standing(lanes: Lanes, lane: Lane, frame: Frame) -> tuple[str, str, str, str]:
    """State at the playhead: glyph and its style, words and their style."""
    if frame.at < lane.arrival:
        return "·", "faint", "", "faint"
    over = frame.at >= lane.finish
    if not over or lane.status == "open":
        phase = lanes.phase_at(lane.index, min(frame.at, lane.finish - 1))
        if phase is not None:
            look = theme.phase_look(phase)
            return look.glyph, look.style, phase.replace("_", " "), look.style
    look = theme.status_look(lane.status)
    if lane.status != "ok":
        return look.glyph, look.style, lane.status, look.style
    return look.glyph, look.style, duration(lane["e2e"]), "bad" if lane.index in frame.slow else "muted"


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


def top_for(selected: int | None, shown: Ints, top: int, rows: int) -> int:
    """The first visible row so that the selected lane is among `rows` rows; as near as can be to `top`."""
    top = max(min(top, len(shown) - rows), 0)
    places = np.flatnonzero(shown == (-1 if selected is None else selected))
    if not len(places) or rows <= 0:
        return top
    place = int(places[0])
    return min(max(top, place - rows + 1), place)


def top_following(lanes: Lanes, shown: Ints, at: int, top: int, rows: int) -> int:
    """The first visible row so that the lanes that live at `at` are on screen; as near as can be to `top`."""
    top = max(min(top, len(shown) - rows), 0)
    living = (lanes.columns["arrival"][shown] <= at) & (lanes.columns["finish"][shown] > at)
    places = np.flatnonzero(living)
    if not len(places) or rows <= 0:
        return top
    first, last = int(places[0]), int(places[-1])
    if last >= top + rows:
        top = last - rows + 1
    return max(min(top, first), 0)
