"""Lanes of requests as lines: a label, and the phases of a life over the columns of a window."""

from typing import Final

from console import theme
from console.lanes import Lane, Lanes
from console.timeline import lane_cells
from console.widgets.cursor import Overlay
from console.widgets.frame import Frame, Geometry
from console.widgets.ink import Line, Piece, clean, duration, fit, fit_ends, pad

_STANDING: Final = 10


def lane_line(lanes: Lanes, lane: Lane, frame: Frame, shape: Geometry, overlay: Overlay) -> Line:
    """One request; what comes after the playhead is dim."""
    ground = " on.cursor" if lane.index == frame.selected else ""
    head = shape.chart if overlay.head is None else overlay.head
    cells = [
        _cell(phase, dim=column > head or frame.at < frame.window.start, ground=ground)
        for column, phase in enumerate(lane_cells(lanes.spans(lane.index), frame.window, shape.chart))
    ]
    _mark_end(cells, lane, frame, ground)
    label = [(text, style + ground) for text, style in _label(lanes, lane, frame, shape.gutter)]
    return [*label, *overlay.over(cells)]


def _cell(phase: str | None, dim: bool, ground: str) -> Piece:
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


def _label(lanes: Lanes, lane: Lane, frame: Frame, gutter: int) -> Line:
    """Cursor, state at the playhead, id; in a wide gutter also its phase then, or what it took."""
    chosen = lane.index == frame.selected
    glyph, style, standing, standing_style = _standing(lanes, lane, frame)
    wide = gutter >= 28
    name_room = max(gutter - 4 - (_STANDING if wide else 0), 0)
    label: Line = [
        ("▸" if chosen else " ", "accent bold"),
        (glyph + " ", style),
        (fit_ends(clean(lane.request_id) or f"#{lane.rid}", name_room), "strong" if chosen else "text"),
    ]
    if wide:
        label.append((fit(standing, _STANDING, "right"), standing_style))
    return pad([*label, (" ", "text")], gutter)


def _standing(lanes: Lanes, lane: Lane, frame: Frame) -> tuple[str, str, str, str]:
    """State at the playhead: glyph and its style, words and their style."""
    if frame.at < lane.arrival:
        return "·", "faint", "", "faint"
    ended = frame.at >= lane.finish
    if not ended or lane.status == "open":
        phase = lanes.phase_at(lane.index, min(frame.at, lane.finish - 1))
        if phase is not None:
            look = theme.phase_look(phase)
            return look.glyph, look.style, phase.replace("_", " "), look.style
    look = theme.status_look(lane.status)
    if lane.status != "ok":
        return look.glyph, look.style, lane.status, look.style
    return look.glyph, look.style, duration(lane["e2e"]), "bad" if lane.index in frame.slow else "muted"
