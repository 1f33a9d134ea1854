"""Lists of rows side by side and below each other, one of them with the cursor. Pure: data to lines of ink."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from console.widgets.ink import Line, beside, crop, pad, rule

TWO_COLUMNS: Final = 130
"""From this width on there are two columns of panes."""
_LOW: Final = 10
"""Rows that a pane needs, so that another one below it is worth it."""
_GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Pane:
    """A list with a title. `draw` gives row `i` in a width, `say` what there is to say of it when it is selected.

    `who` is the request that it leads to, `when` the instant to look at on the timeline.
    """

    title: str
    note: str
    rows: int
    draw: Callable[[int, int], Line]
    say: Callable[[int], Line]
    who: Callable[[int], int | None]
    when: Callable[[int], int | None]


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one pane is: `place` among all of them, and its cells."""

    place: int
    x: int
    y: int
    width: int
    height: int


def slots(panes: int, active: int, width: int, height: int) -> list[Slot]:
    """The panes there is room for, the active one among them: downwards in each column, then in the next one."""
    if not panes:
        return []
    columns = 2 if width >= TWO_COLUMNS else 1
    rows = min(max(height // _LOW, 1), -(-panes // columns))
    shown = min(rows * columns, panes)
    first = min(max(active - shown + 1, 0), panes - shown)
    room = (width - _GAP * (columns - 1)) // columns
    edges = [height * row // rows for row in range(rows + 1)]
    found = []
    for place in range(shown):
        column, row = divmod(place, rows)
        found.append(Slot(first + place, column * (room + _GAP), edges[row], room, edges[row + 1] - edges[row]))
    return found


def panes_lines(panes: Sequence[Pane], active: int, selected: Sequence[int], width: int, height: int) -> list[Line]:
    """All panes there is room for, in `height` lines."""
    columns: dict[int, list[Line]] = {}
    for slot in slots(len(panes), active, width, height):
        pane, chosen = panes[slot.place], selected[slot.place]
        lines = pane_lines(pane, chosen, slot, of=len(panes), active=slot.place == active)
        columns.setdefault(slot.x, []).extend(lines)
    left, *others = (lines for _, lines in sorted(columns.items()))
    for x, right in zip(sorted(columns)[1:], others, strict=True):
        left = beside(left, right, x)
    return left[:height]


def pane_lines(pane: Pane, chosen: int, slot: Slot, *, of: int, active: bool) -> list[Line]:
    """One pane in exactly its height: title, rows about the chosen one, a sentence on that."""
    width = slot.width
    note = f"{pane.note}  {slot.place + 1}/{of}" if active else pane.note
    lines = [rule(f"{'▸ ' if active else ''}{pane.title}", width, note)]
    if not pane.rows:
        lines.append([("  none", "muted")])
    for row in rows_in(pane.rows, chosen, slot):
        ground = " on.cursor" if active and row == chosen else ""
        cursor = ("▸" if row == chosen else " ", f"accent{' bold' if active else ''}{ground}")
        drawn = pad(pane.draw(row, width - 1), width - 1)
        lines.append([cursor, *((text, style + ground) for text, style in drawn)])
    lines += [[] for _ in range(max(slot.height - len(lines) - 2, 0))]
    if pane.rows and slot.height > 3:
        lines.append(crop([("  ", "text"), *pane.say(chosen)], width))
    return [*lines, *([[]] * slot.height)][: slot.height]


def rows_in(rows: int, chosen: int, slot: Slot) -> range:
    """The rows that are shown, the chosen one in the middle of those as far as that can be."""
    room = max(slot.height - 3, 1)
    first = max(min(chosen - room // 2, rows - room), 0)
    return range(first, min(first + room, rows))


def row_at(
    panes: Sequence[Pane], active: int, selected: Sequence[int], size: tuple[int, int], at: tuple[int, int]
) -> tuple[int, int | None] | None:
    """Which pane is at a cell of the picture, and which of its rows (None: its title or none); None: no pane."""
    x, y = at
    for slot in slots(len(panes), active, *size):
        if slot.x <= x < slot.x + slot.width and slot.y <= y < slot.y + slot.height:
            rows = rows_in(panes[slot.place].rows, selected[slot.place], slot)
            line = y - slot.y - 1
            return slot.place, rows[line] if 0 <= line < len(rows) else None
    return None
