"""What frames every screen, in lines: the bar on top, the recorder's health, the keys."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from console.book import Health
from console.keys import Key
from console.screentable import SCREENS
from console.widgets.ink import Line, clean, crop, duration, pad, spread, width_of

_LEGIBLE: Final = 24
"""Cells in which the name of a run, or of two that are compared, can still be told from others."""
_NAME: Final[Line] = [(" tailtrace ", "accent bold")]
_STATES = {"sealed": ("■", "good"), "recording": ("●", "accent bold"), "killed": ("▲", "warn")}


def top_bar(active: str, run: str, place: int, runs: int, *, width: int) -> Line:
    """Name, screens (all titles where there is room, else that of the active one), and which run of how many."""
    count = _count(place, runs)
    left = _titles(active, _is_short(active, run, place, runs, width))
    room = max(width - width_of(left) - width_of(count) - 1, 0)
    return spread(left, [*crop([(clean(run), "text")], room), *count], width)


def titles_at(active: str, run: str, place: int, runs: int, *, width: int) -> list[tuple[int, str]]:
    """Where in `top_bar` which screen stands: the column of its key, and its name."""
    short = _is_short(active, run, place, runs, width)
    starts = accumulate((width_of(piece) for piece in _title_pieces(active, short)), initial=width_of(_NAME))
    return [(start + 1, place.name) for start, place in zip(starts, SCREENS, strict=False)]


def _is_short(active: str, run: str, place: int, runs: int, width: int) -> bool:
    """Whether there is no room for all titles beside the run's name, or beside what is legible of it."""
    name = min(width_of([(run, "")]), _LEGIBLE)
    return width_of(_titles(active, False)) + name + width_of(_count(place, runs)) >= width


def _count(place: int, runs: int) -> Line:
    return [((f"  {place + 1}/{runs}" if runs > 1 else "") + " ", "muted")]


def _titles(active: str, short: bool) -> Line:
    return [*_NAME, *(piece for title in _title_pieces(active, short) for piece in title)]


def _title_pieces(active: str, short: bool) -> Iterator[Line]:
    for place in SCREENS:
        chosen = place.name == active
        title: Line = [(f" {place.key} ", "accent" if chosen else "faint")]
        if chosen or not short:
            title.append((f"{place.title} ", "strong bold" if chosen else "muted"))
        yield title


def status_line(health: Health | None, note: Line, width: int, live: Line | None = None) -> Line:
    """How a watched run is watched and the recorder's account at the left, the screen's own note at the right.

    Losses come first in the account, as a narrow screen cuts its end.
    """
    if health is None:
        return spread([(" reading the run …", "muted")], note, width)
    glyph, style = _STATES.get(health.state, ("?", "muted"))
    left: Line = [(f" {glyph} {health.state}", style), *([("  ", "text"), *live] if live else [])]
    if health.damages:
        file, what = health.damages[0]
        more = f" (+{len(health.damages) - 1} more)" if len(health.damages) > 1 else ""
        count = len(health.damages)
        noun = "damage" if count == 1 else "damages"
        left += [("  ", "text"), (f"{count} {noun}: ", "bad bold"), (f"{clean(file)} {clean(what)}{more}", "bad")]
    if health.events:
        left += [("  ", "text"), (f"{health.drops:,} dropped", "bad bold" if health.drops else "muted")]
        if health.durable is not None:
            left += [("  ", "text"), (f"durable to {duration(health.durable)}", "muted")]
        cost = "" if health.append_ns is None else f", {health.append_ns:,.0f} ns each"
        left += [("  ", "text"), (f"{health.events:,} records{cost}", "muted")]
    else:
        left += [("  no account of a recorder", "faint")]
    if health.state == "recording" and not live:
        left += [("  R reloads", "accent")]
    room = width - width_of(note) - 2
    return [*pad(left, room), ("  ", "text"), *note] if room > 20 else pad(left, width)


def key_bar(keys: Sequence[Key], width: int) -> Line:
    """The keys that fit, the most useful first; help, palette and quit always."""
    last = [key for key in keys if key.action in {"app.help", "app.quit"}]
    tail = _entries(last)
    line: Line = [(" ", "text")]
    for key in keys:
        entry = _entries([key])
        if key in last or width_of(line) + width_of(entry) + width_of(tail) > width:
            continue
        line += entry
    return crop([*pad(line, width - width_of(tail)), *tail], width)


def foot_line(health: Health | None, note: Line, keys: Sequence[Key], width: int, live: Line | None = None) -> Line:
    """Status and keys in one line, for a compact screen: how the run stands, what was lost, the note, and the keys.

    What is to be known comes first: keys have the room that it leaves.
    """
    glyph, style = ("…", "muted") if health is None else _STATES.get(health.state, ("?", "muted"))
    left: Line = [(f" {glyph}", style), *([(" ", "text"), *live] if live else [])]
    if health is not None and health.damages:
        left.append((f" {len(health.damages)} damaged", "bad bold"))
    if health is not None:
        left.append((f" {health.drops:,} dropped", "bad bold" if health.drops else "muted"))
    left += [("  ", "text"), *note] if note else [(" ", "text")]
    return [*crop(left, width), *key_bar(keys, width - width_of(left))] if width_of(left) < width else crop(left, width)


def _entries(keys: Sequence[Key]) -> Line:
    return [piece for key in keys for piece in ((key.shown, "accent"), (f" {key.label}  ", "muted"))]
