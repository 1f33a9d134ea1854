"""The same requests in run A and another, in lines: a list from winners to losers, and one of them side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from console import theme
from console.lanes import Lanes
from console.timeline import Floats, Window, lane_cells
from console.widgets.detail import Cause
from console.widgets.ink import Line, clean, crop, duration, fit, ms, pad, rule, runs, signed_bar

_NUMBER = 11


@dataclass(frozen=True, slots=True)
class Pairs:
    """Requests that both runs answered, sorted by what changed: the biggest winner first. Times in ns."""

    names: Sequence[str]
    rids_a: Sequence[int]
    rids_b: Sequence[int]
    times_a: Floats
    times_b: Floats

    def __len__(self) -> int:
        return len(self.names)

    @property
    def changes(self) -> Floats:
        """B - A of each pair."""
        changes: Floats = self.times_b - self.times_a
        return changes


def by_change(names: Sequence[str], rids: tuple[Sequence[int], Sequence[int]], times: tuple[Floats, Floats]) -> Pairs:
    """Pairs in their order: by B - A, then by name."""
    changes = times[1] - times[0]
    order = sorted(range(len(names)), key=lambda place: (changes[place], names[place]))
    picked = [np.asarray(column, np.float64)[order] for column in times]
    ids = [[column[place] for place in order] for column in rids]
    return Pairs([names[place] for place in order], ids[0], ids[1], picked[0], picked[1])


def list_lines(
    pairs: Pairs, selected: int, reverse: bool, width: int, height: int, *, other: theme.Look = theme.RUNS[1]
) -> list[Line]:
    """The list around the selected pair; `reverse` begins with the biggest loser. `other` is the run beside A."""
    changes = pairs.changes
    faster, slower = int((changes < 0).sum()), int((changes > 0).sum())
    note = f"{len(pairs):,} in both: {faster:,} faster, {slower:,} slower in {other.glyph}"
    lines = [rule("Same requests", width, note if len(note) + 16 <= width else f"{faster:,} faster, {slower:,} slower")]
    if not len(pairs):
        return [*lines, [("no request id was answered in both runs", "muted")]][:height]
    most = float(np.abs(changes).max()) or 1.0
    for row in rows_shown(len(pairs), selected, height):
        place = len(pairs) - 1 - row if reverse else row
        lines.append(_row(pairs, place, row == selected, most, width, other=other))
    return lines[:height]


def rows_shown(count: int, selected: int, height: int) -> range:
    """Which rows of the list are in `height` lines: below the heading, around the selected one."""
    room = max(height - 1, 1)
    first = max(min(selected - room // 2, count - room), 0)
    return range(first, min(first + room, count))


def _row(pairs: Pairs, place: int, chosen: bool, most: float, width: int, *, other: theme.Look) -> Line:
    change = float(pairs.changes[place])
    ground = " on.cursor" if chosen else ""
    name_room = 18 if width >= 64 else 12
    style = "text" if not change else "good" if change < 0 else "bad"
    line: Line = [
        ("▸" if chosen else " ", "accent bold"),
        (" " + fit(clean(pairs.names[place]), name_room), "strong" if chosen else "text"),
        (fit(ms(pairs.times_a[place]), _NUMBER, "right"), "run.a"),
        (" → ", "muted"),
        (fit(ms(pairs.times_b[place]), _NUMBER - 1, "right"), other.style),
        (fit(f"{change / 1e6:+,.1f}", _NUMBER, "right") + " ", style),
    ]
    room = width - sum(len(text) for text, _ in line)
    line += signed_bar(change / most, min(room, 24)) if room >= 7 else []
    return pad([(text, piece_style + ground) for text, piece_style in line], width, f"text{ground}")


def side_by_side(
    lanes: tuple[Lanes, Lanes], indices: tuple[int, int], width: int, other: theme.Look = theme.RUNS[1]
) -> list[Line]:
    """One request's phases in both runs, on one scale that begins with its arrival."""
    both = [(run, run.lane(index)) for run, index in zip(lanes, indices, strict=True)]
    longest = max(*(lane.finish - lane.arrival for _, lane in both), 1)
    room = max(width - 12, 1)
    lines: list[Line] = []
    for side, (run, lane) in zip((theme.RUNS[0], other), both, strict=True):
        window = Window.whole(lane.arrival, lane.arrival + longest)
        cells = []
        for phase in lane_cells(run.spans(lane.index), window, room):
            look = theme.phase_look(phase) if phase is not None else None
            cells.append((look.glyph, look.style) if look is not None else (" ", "text"))
        took = fit(duration(lane.finish - lane.arrival), 9, "right")
        lines.append(crop([(f" {side.glyph} ", f"{side.style} bold"), *runs(cells), (took, "text")], width))
    return lines


def cause_lines(
    a: Sequence[Cause], b: Sequence[Cause], width: int, height: int, other: theme.Look = theme.RUNS[1]
) -> list[Line]:
    """The causes of one request in both runs: those that changed most, in the order of its life, and the sum."""
    sides = ({cause.name: cause.ns for cause in a}, {cause.name: cause.ns for cause in b})
    names = sorted({**sides[0], **sides[1]}, key=lambda name: -abs(sides[1].get(name, 0) - sides[0].get(name, 0)))
    shown = sorted(names[: max(height - 1, 0)], key=theme.cause_order)
    lines = [
        _cause(theme.cause_look(name), name, sides[0].get(name, 0), sides[1].get(name, 0), width=width, other=other)
        for name in shown
    ]
    sums = (sum(side.values()) for side in sides)
    return [*lines, _cause(theme.Look(" ", "text"), "sum = E2E", *sums, width=width, other=other)][:height]


def _cause(look: theme.Look, label: str, before: int, after: int, *, width: int, other: theme.Look) -> Line:
    change = after - before
    style = "text" if not change else "good" if change < 0 else "bad"
    line: Line = [
        (f" {look.glyph} ", look.style),
        (fit(label, 21), "text"),
        (fit(duration(before), 9, "right"), "run.a"),
        (" → ", "muted"),
        (fit(duration(after), 8, "right"), other.style),
        (fit(("+" if change > 0 else "") + duration(change), 10, "right"), style),
    ]
    return crop(line, width)
