"""The one key table: bindings, footer, help and palette are all read from here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.screentable import SCREENS


class Scope(StrEnum):
    """Where a key counts. The order is that of the help."""

    EVERYWHERE = "Everywhere"
    OVERVIEW = "Overview"
    TIMELINE = "Timeline"
    DETAIL = "Request detail"
    REQUEST = "Request"
    COMPARE = "Compare"
    ABREAST = "Timelines side by side"
    ENGINE = "Engine"
    SQL = "SQL"
    EDITOR = "SQL editor"
    ANSWER = "SQL answer"
    BROWSER = "SQL tables"
    BUDGET = "Budget"
    CONTRAST = "Contrast"
    EXPLAIN = "Explain"
    FILTER = "Filter line"
    ASKED = "Other lines"
    MARKS = "Marks"
    EXPORT = "Export"


@dataclass(frozen=True, slots=True)
class Key:
    """One thing a person can do.

    `keys` are Textual's names of the keys, `shown` how they are written, `action` what they do (in Textual's words),
    `label` the word in the footer (empty: not in the footer), `title` and `help` the palette's and the help's words.
    """

    scope: Scope
    keys: str
    shown: str
    action: str
    title: str
    help: str
    label: str = ""
    palette: bool = True

    @property
    def section(self) -> str:
        """The scope's name in a file of keys."""
        return self.scope.name.lower()

    @property
    def id(self) -> str:
        """What a file of keys calls it: `timeline.zoom-in`."""
        words = "".join(char if char.isalnum() else " " for char in self.title.lower()).split()
        return f"{self.section}.{'-'.join(words)}"


_ARROWS: Final = (("left", "←", -1, 0), ("right", "→", 1, 0), ("up", "↑", 0, -1), ("down", "↓", 0, 1))


def _timeline() -> Iterator[Key]:
    at = Scope.TIMELINE
    yield Key(at, "space", "space", "play", "Play or pause", "run the playhead, or hold it", "play")
    yield Key(at, "w", "w", "zoom(1)", "Zoom in", "half the window, about the playhead", "zoom")
    yield Key(at, "s", "s", "zoom(-1)", "Zoom out", "twice the window, about the playhead")
    yield Key(at, "a", "a", "pan(-1)", "Pan left", "a quarter of the window", "")
    yield Key(at, "d", "d", "pan(1)", "Pan right", "a quarter of the window")
    yield Key(at, "0", "0", "fit", "Fit", "show the whole run", "fit")
    yield Key(at, "j,down", "j ↓", "lane(1)", "Next request", "select the lane below", palette=False)
    yield Key(at, "k,up", "k ↑", "lane(-1)", "Previous request", "select the lane above", palette=False)
    yield Key(at, "pagedown", "pgdn", "lane(10)", "Ten requests on", "select ten lanes below", palette=False)
    yield Key(at, "pageup", "pgup", "lane(-10)", "Ten requests back", "select ten lanes above", palette=False)
    yield Key(at, "enter", "enter", "detail", "Request detail", "its causes and culprits", "detail")
    yield Key(at, "n", "n", "slow(1)", "Next slow request", "over the SLO (default: p95 of E2E and up)", "slow")
    yield Key(at, "N", "N", "slow(-1)", "Previous slow request", "over the SLO, backwards")
    yield Key(at, "g", "g", "ask_seek", "Seek", "+2.5s  73%  req:ID  step:12  14:03:22.5", "seek")
    yield Key(at, "full_stop", ".", "event(1)", "Next event", "to the next change of state", "")
    yield Key(at, "comma", ",", "event(-1)", "Previous event", "to the change of state before")
    yield Key(at, "right_square_bracket", "]", "pass(1)", "Next pass", "to the next scheduler pass", "")
    yield Key(at, "left_square_bracket", "[", "pass(-1)", "Previous pass", "to the pass before")
    yield Key(at, "right", "→", "nudge(1)", "Playhead right", "one column", palette=False)
    yield Key(at, "left", "←", "nudge(-1)", "Playhead left", "one column", palette=False)
    yield Key(at, "home", "home", "ends(-1)", "To the beginning", "playhead to the run's beginning")
    yield Key(at, "end", "end", "ends(1)", "To the end", "playhead to the run's end")
    yield Key(at, "plus,equals_sign", "+", "speed(1)", "Faster", "up to 64 times", "speed")
    yield Key(at, "minus", "-", "speed(-1)", "Slower", "down to a tenth")
    yield Key(at, "r", "r", "reverse", "Reverse", "play backwards, or forwards again")
    yield Key(at, "m", "m", "mark", "Mark", "remember where the playhead stands", "mark")
    yield Key(at, "o", "o", "sort(1)", "Sort the lanes", "by arrival, latency, time in a phase", "sort")
    yield Key(at, "O", "O", "sort(-1)", "Sort the other way", "the order before that one")
    yield Key(at, "v", "v", "stretch", "Select a stretch", "from the playhead on; again: done", "select")
    yield Key(at, "shift+right", "shift+→", "extend(1)", "Select a column more", "to the right", palette=False)
    yield Key(at, "shift+left", "shift+←", "extend(-1)", "Select a column less", "or more to the left", palette=False)
    yield Key(at, "f", "f", "only_stretch", "Filter by the stretch", "only who was alive in the selection")
    yield Key(at, "x", "x", "look_closer", "Zoom to the stretch", "the window to the selection")
    yield Key(at, "escape", "esc", "drop", "Select nothing", "do without the selected stretch", palette=False)


def _detail() -> Iterator[Key]:
    at = Scope.DETAIL
    yield Key(at, "j,down", "j ↓", "cause(1)", "Next cause", "select the row below", palette=False)
    yield Key(at, "k,up", "k ↑", "cause(-1)", "Previous cause", "select the row above", palette=False)
    yield Key(at, "c", "c", "culprit", "Jump to the culprit", "the request behind the cause", "culprit")
    yield Key(at, "enter", "enter", "whole", "The whole request", "on a screen of its own", "whole")
    yield Key(at, "escape", "esc", "close", "Close the detail", "back to the lanes", "close")


def _request() -> Iterator[Key]:
    at = Scope.REQUEST
    yield Key(at, "j,down", "j ↓", "row(1)", "Next row", "select the row below", palette=False)
    yield Key(at, "k,up", "k ↑", "row(-1)", "Previous row", "select the row above", palette=False)
    yield Key(at, "pagedown,space", "pgdn", "row(10)", "Ten rows on", "select ten rows below", palette=False)
    yield Key(at, "pageup", "pgup", "row(-10)", "Ten rows back", "select ten rows above", palette=False)
    yield Key(at, "l,right", "l →", "pane(1)", "Next list", "causes, gaps, passes, neighbours, ...", "next list")
    yield Key(at, "h,left", "h ←", "pane(-1)", "Previous list", "the one before")
    yield Key(at, "c", "c", "culprit", "Jump to the culprit", "the request behind the selected row", "culprit")
    yield Key(at, "enter", "enter", "look", "Look at the timeline", "where the selected row happened", "timeline")
    yield Key(at, "n", "n", "slow(1)", "Next slow request", "over the SLO (default: p95 of E2E and up)", "slow")
    yield Key(at, "N", "N", "slow(-1)", "Previous slow request", "over the SLO, backwards")
    yield Key(at, "escape", "esc", "back", "Back", "to the request before, or the timeline", "back")


def _overview() -> Iterator[Key]:
    at = Scope.OVERVIEW
    yield Key(at, "b", "b", "box", "Box", "choose cells of the heat map; again: none", "box")
    yield Key(
        at, "enter", "enter", "take", "Only the box", "a filter for the requests in it", "only these", palette=False
    )
    yield Key(at, "escape", "esc", "unbox", "No box", "", palette=False)
    for key, shown, columns, lines in _ARROWS:
        move, stretch = f"arrow({columns}, {lines})", f"stretch({columns}, {lines})"
        yield Key(at, key, shown, move, f"Box {key}", "or the page, or the time", palette=False)
        yield Key(
            at, f"shift+{key}", f"shift+{shown}", stretch, f"Stretch box {key}", "one corner of it", palette=False
        )
    yield Key(at, "v", "v", "metric", "Next metric", "heat map of E2E, TTFT or TPOT", "metric")
    yield Key(at, "w", "w", "zoom(1)", "Zoom in", "half the time in the heat map", "zoom")
    yield Key(at, "s", "s", "zoom(-1)", "Zoom out", "twice the time in the heat map")
    yield Key(at, "a", "a", "pan(-1)", "Earlier", "a quarter of the time in the heat map")
    yield Key(at, "d", "d", "pan(1)", "Later", "a quarter of the time in the heat map")
    yield Key(at, "0", "0", "fit", "Fit", "the whole run in the heat map", "fit")
    yield Key(at, "n", "n", "slow", "Slowest request", "show it on the timeline", "slowest")
    yield Key(at, "j", "j", "scroll(1)", "Scroll down", "one line", palette=False)
    yield Key(at, "k", "k", "scroll(-1)", "Scroll up", "one line", palette=False)
    yield Key(at, "pagedown,space", "pgdn", "scroll(12)", "Page down", "twelve lines", palette=False)
    yield Key(at, "pageup", "pgup", "scroll(-12)", "Page up", "twelve lines", palette=False)


def _compare() -> Iterator[Key]:
    at = Scope.COMPARE
    yield Key(at, "j,down", "j ↓", "pair(1)", "Next request", "select the pair below", palette=False)
    yield Key(at, "k,up", "k ↑", "pair(-1)", "Previous request", "select the pair above", palette=False)
    yield Key(at, "l", "l", "abreast", "Side by side", "all runs on one axis, with one playhead", "side by side")
    yield Key(at, "o", "o", "order", "Turn the list around", "biggest winner first, or loser", "order")
    yield Key(at, "v", "v", "metric", "Next metric", "CDF of E2E, TTFT or TPOT", "metric")
    yield Key(at, "pagedown,space", "pgdn", "scroll(12)", "Page down", "twelve lines", palette=False)
    yield Key(at, "pageup", "pgup", "scroll(-12)", "Page up", "twelve lines", palette=False)
    yield Key(
        at,
        "enter",
        "enter",
        "show_request",
        "Show on the timeline",
        "the selected request, in the chosen run",
        "timeline",
    )


def _engine() -> Iterator[Key]:
    at = Scope.ENGINE
    yield Key(at, "j,down", "j ↓", "scroll(1)", "Scroll down", "one line", palette=False)
    yield Key(at, "k,up", "k ↑", "scroll(-1)", "Scroll up", "one line", palette=False)
    yield Key(at, "pagedown,space", "pgdn", "scroll(12)", "Page down", "twelve lines", palette=False)
    yield Key(at, "pageup", "pgup", "scroll(-12)", "Page up", "twelve lines", palette=False)
    yield Key(at, "w", "w", "zoom(1)", "Zoom in", "half the stretch, about its middle", "zoom")
    yield Key(at, "s", "s", "zoom(-1)", "Zoom out", "twice the stretch, about its middle")
    yield Key(at, "a,left", "a ←", "pan(-1)", "Pan left", "a quarter of the stretch")
    yield Key(at, "d,right", "d →", "pan(1)", "Pan right", "a quarter of the stretch")
    yield Key(at, "0", "0", "fit", "Fit", "the whole run", "fit")
    yield Key(at, "v", "v", "worker(1)", "Next worker", "one after the other, then all", "worker")
    yield Key(at, "V", "V", "worker(-1)", "Previous worker", "the other way round")
    yield Key(at, "n", "n", "victim", "Worst preemption", "who lost most to one, on the timeline", "victim")
    yield Key(at, "enter", "enter", "moment", "This moment", "the middle of the stretch on the timeline", "timeline")


def _abreast() -> Iterator[Key]:
    at = Scope.ABREAST
    yield Key(at, "space", "space", "play", "Play or pause", "one playhead over all runs", "play", palette=False)
    yield Key(at, "left", "←", "nudge(-1)", "Playhead left", "one column", palette=False)
    yield Key(at, "right", "→", "nudge(1)", "Playhead right", "one column", palette=False)
    yield Key(at, "j,down", "j ↓", "select(1)", "Next request", "in all runs", palette=False)
    yield Key(at, "k,up", "k ↑", "select(-1)", "Previous request", "in all runs", palette=False)
    yield Key(at, "pagedown", "pgdn", "select(8)", "Eight requests on", "in all runs", palette=False)
    yield Key(at, "pageup", "pgup", "select(-8)", "Eight requests back", "in all runs", palette=False)
    yield Key(at, "w", "w", "zoom(1)", "Zoom in", "half the time, about the playhead", "zoom", palette=False)
    yield Key(at, "s", "s", "zoom(-1)", "Zoom out", "twice the time", palette=False)
    yield Key(at, "a", "a", "pan(-1)", "Pan left", "a quarter of the time", palette=False)
    yield Key(at, "d", "d", "pan(1)", "Pan right", "a quarter of the time", palette=False)
    yield Key(at, "0", "0", "fit", "Fit", "the longest run", "fit", palette=False)
    yield Key(at, "plus,equals_sign", "+", "speed(1)", "Faster", "up to 64 times", "speed", palette=False)
    yield Key(at, "minus", "-", "speed(-1)", "Slower", "down to a tenth", palette=False)
    yield Key(at, "r", "r", "reverse", "Reverse", "play backwards, or forwards again", palette=False)
    yield Key(at, "enter", "enter", "choose", "On the timeline", "the selected request, in the chosen run", "timeline",
              palette=False)  # fmt: skip
    yield Key(at, "escape,l", "esc l", "close", "Back to the numbers", "", "numbers", palette=False)


def _budget() -> Iterator[Key]:
    at = Scope.BUDGET
    yield Key(at, "v,right", "v →", "view(1)", "Next view", "budget, excess, spread, blame, culprits", "view")
    yield Key(at, "V,left", "V ←", "view(-1)", "Previous view", "the one before")
    yield Key(at, "j,down", "j ↓", "row(1)", "Next row", "select the row below", palette=False)
    yield Key(at, "k,up", "k ↑", "row(-1)", "Previous row", "select the row above", palette=False)
    yield Key(at, "pagedown,space", "pgdn", "row(10)", "Ten rows on", "select ten rows below", palette=False)
    yield Key(at, "pageup", "pgup", "row(-10)", "Ten rows back", "select ten rows above", palette=False)
    yield Key(at, "p", "p", "parts", "Phases or causes", "what the time is split by", "parts")
    yield Key(at, "o", "o", "slow", "What is slow", "SLO, p95, p99, p90; by E2E, TTFT, TPOT", "slow")
    yield Key(at, "b", "b", "group", "Group by", "tier, prompt, model, tenant, cause", "by")
    yield Key(at, "enter", "enter", "only", "Only these requests", "filter to the victims of the row", "only")
    yield Key(at, "c", "c", "culprit", "Jump to the culprit", "the request behind the row", "culprit")
    yield Key(at, "n", "n", "victim", "Jump to the victim", "the request that the row cost most")


def _contrast() -> Iterator[Key]:
    at = Scope.CONTRAST
    yield Key(at, "j,down", "j ↓", "row(1)", "Next attribute", "select the row below", palette=False)
    yield Key(at, "k,up", "k ↑", "row(-1)", "Previous attribute", "select the row above", palette=False)
    yield Key(at, "pagedown,space", "pgdn", "row(10)", "Ten rows on", "select ten rows below", palette=False)
    yield Key(at, "pageup", "pgup", "row(-10)", "Ten rows back", "select ten rows above", palette=False)
    yield Key(at, "o", "o", "slow", "What is slow", "without a filter: p95, p99, p90, SLO", "slow")
    yield Key(at, "enter", "enter", "only", "Only these requests", "filter by what tells them apart", "only")


def _explain() -> Iterator[Key]:
    at = Scope.EXPLAIN
    yield Key(at, "enter", "enter", "evidence", "Show the evidence", "its requests, on the timeline", "evidence")
    yield Key(at, "j,down", "j ↓", "finding(1)", "Next finding", "select the finding below", "next", palette=False)
    yield Key(at, "k,up", "k ↑", "finding(-1)", "Previous finding", "select the one above", palette=False)
    yield Key(at, "pagedown,space", "pgdn", "scroll(12)", "Page down", "twelve lines", palette=False)
    yield Key(at, "pageup", "pgup", "scroll(-12)", "Page up", "twelve lines", palette=False)


def _sql() -> Iterator[Key]:
    at = Scope.SQL
    yield Key(at, "i", "i", "edit", "Write a question", "into the editor", "write")
    yield Key(at, "f5,ctrl+r", "f5 ctrl+r", "ask", "Ask", "what is written in the editor", "ask")
    yield Key(at, "escape", "esc", "stop", "Stop asking", "interrupt the running question")
    yield Key(at, "f", "f", "only", "Filter by the answer", "all screens: the requests of its rid", "filter by it")
    yield Key(at, "b", "b", "browse", "Browse the tables", "columns, types, units, what they are", "tables")
    yield Key(at, "h", "h", "history", "History", "what was asked before", "history")
    yield Key(at, "left_square_bracket", "[", "recall(-1)", "Older question", "into the editor", palette=False)
    yield Key(at, "right_square_bracket", "]", "recall(1)", "Newer question", "into the editor", palette=False)


def _editor() -> Iterator[Key]:
    """What else is pressed there is text, or moves its cursor."""
    at = Scope.EDITOR
    yield Key(at, "f5,ctrl+r,ctrl+j,ctrl+enter", "f5 ctrl+r", "ask", "Ask", "what is written", "ask", palette=False)
    yield Key(at, "escape", "esc", "leave", "Out of the editor", "to the answer", "leave", palette=False)
    yield Key(at, "tab", "tab", "take", "Take what is offered", "or out of the editor", "take", palette=False)
    yield Key(at, "ctrl+@,ctrl+space", "ctrl+spc", "offer", "Complete the word", "offer what fits, and take it",
              "complete", palette=False)  # fmt: skip
    yield Key(at, "ctrl+up,alt+up", "alt+↑", "recall(-1)", "Older question", "in its place", "older", palette=False)
    yield Key(at, "ctrl+down,alt+down", "alt+↓", "recall(1)", "Newer question", "in its place", "", palette=False)


def _answer() -> Iterator[Key]:
    at = Scope.ANSWER
    yield Key(at, "j,down", "j ↓", "row(1)", "Next row", "select the row below", palette=False)
    yield Key(at, "k,up", "k ↑", "row(-1)", "Previous row", "select the row above", palette=False)
    yield Key(at, "pagedown,space", "pgdn", "page(1)", "Page down", "a screenful", palette=False)
    yield Key(at, "pageup", "pgup", "page(-1)", "Page up", "a screenful", palette=False)
    yield Key(at, "home", "home", "ends(-1)", "First row", "to the top", palette=False)
    yield Key(at, "end", "end", "ends(1)", "Last row", "to the bottom", palette=False)
    yield Key(at, "right", "→", "column(1)", "Columns on", "one column to the right", palette=False)
    yield Key(at, "left", "←", "column(-1)", "Columns back", "one column to the left", palette=False)
    yield Key(at, "enter", "enter", "open", "Show the request", "of the row's rid, on the timeline", "timeline")


def _browser() -> Iterator[Key]:
    at = Scope.BROWSER
    yield Key(at, "j,down", "j ↓", "entry(1)", "Next entry", "select the row below", palette=False)
    yield Key(at, "k,up", "k ↑", "entry(-1)", "Previous entry", "select the row above", palette=False)
    yield Key(at, "space", "space", "open", "Open the table", "show its columns, or hide them", "open", palette=False)
    yield Key(at, "enter", "enter", "take", "Into the editor", "the name, or the whole question", "take", palette=False)
    yield Key(at, "escape", "esc", "leave", "Close the list", "back to the answer", "close", palette=False)


def _filter() -> Iterator[Key]:
    """What else is pressed there is text."""
    at = Scope.FILTER
    yield Key(
        at, "enter", "enter", "submit", "Look at these", "every screen, until it is changed", "look", palette=False
    )
    yield Key(at, "tab", "tab", "take", "Complete", "the first of what may come next", "complete", palette=False)
    yield Key(at, "escape", "esc", "leave", "Leave the filter", "as it was", "leave it", palette=False)


def _asked() -> Iterator[Key]:
    at = Scope.ASKED
    yield Key(at, "enter", "enter", "submit", "Take it", "where to go, or a name", "take it", palette=False)
    yield Key(at, "escape", "esc", "leave", "Never mind", "nothing changes", "leave it", palette=False)


def _marks() -> Iterator[Key]:
    at = Scope.MARKS
    yield Key(at, "enter", "enter", "jump", "Jump to the mark", "on the timeline", "jump", palette=False)
    yield Key(at, "j,down", "j ↓", "mark(1)", "Next mark", "select the row below", palette=False)
    yield Key(at, "k,up", "k ↑", "mark(-1)", "Previous mark", "select the row above", palette=False)
    yield Key(at, "d,delete", "d", "remove", "Remove the mark", "the selected one", "remove", palette=False)
    yield Key(
        at, "escape,apostrophe,q", "esc", "close", "Close the marks", "stay where you are", "close", palette=False
    )


def _export() -> Iterator[Key]:
    at = Scope.EXPORT
    yield Key(at, "c", "c", "form('csv')", "As CSV", "rows of what is shown", "CSV", palette=False)
    yield Key(at, "j", "j", "form('json')", "As JSON", "the numbers of the headless twin", "JSON", palette=False)
    yield Key(at, "p", "p", "form('parquet')", "As Parquet", "rows of what is shown", "Parquet", palette=False)
    yield Key(at, "s", "s", "form('svg')", "As SVG", "a picture of the screen", "SVG", palette=False)
    yield Key(at, "escape,q,e", "esc", "close", "Export nothing", "", "nothing", palette=False)


def _everywhere() -> Iterator[Key]:
    at = Scope.EVERYWHERE
    for place in SCREENS:
        yield Key(at, place.key, place.key, f"app.show('{place.name}')", place.title, place.help)
    yield Key(at, "X", "X", "app.show('explain')", "Explain the tail", "ranked, with the evidence", palette=False)
    yield Key(at, "slash", "/", "filter", "Filter", "look at some requests only", "filter")
    yield Key(at, "backspace", "bksp", "unfilter", "Less of a filter", "take its last term away")
    yield Key(at, "apostrophe", "'", "app.marks", "Marks", "list them, and jump", "")
    yield Key(at, "J", "J", "jump", "Jump", "a letter on all that one can go to", "jump")
    yield Key(at, "y", "y", "copy", "Copy", "the selected request, or what is shown")
    yield Key(at, "e", "e", "export", "Export", "what is shown: CSV, JSON, Parquet, SVG", "export")
    yield Key(at, "tab", "tab", "app.next_run(1)", "Next run", "of those on the command line")
    yield Key(at, "shift+tab", "shift+tab", "app.next_run(-1)", "Previous run", "of those on the command line")
    yield Key(at, "R", "R", "app.reload", "Reload", "read again; a live run has grown", "reload")
    yield Key(at, "G", "G", "app.live", "Live edge", "follow a live run again, after a look back")
    yield Key(at, "z", "z", "app.toggle_compact", "Compact or roomy", "more on a small screen")
    yield Key(at, "t", "t", "app.next_theme", "Next theme", "light, colour-blind safe, no colours")
    yield Key(at, "question_mark", "?", "app.help", "Help", "all keys", "help", palette=False)
    yield Key(
        at, "ctrl+p", "ctrl+p", "app.command_palette", "Palette", "find an action by name", "palette", palette=False
    )
    yield Key(at, "q,ctrl+q,ctrl+c", "q", "app.quit", "Quit", "leave the console", "quit")


KEYS: Final = (
    *_overview(),
    *_timeline(),
    *_detail(),
    *_budget(),
    *_contrast(),
    *_request(),
    *_compare(),
    *_abreast(),
    *_engine(),
    *_sql(),
    *_editor(),
    *_answer(),
    *_browser(),
    *_explain(),
    *_filter(),
    *_asked(),
    *_marks(),
    *_export(),
    *_everywhere(),
)


ALONE: Final = frozenset({Scope.MARKS, Scope.EXPORT, Scope.EDITOR, Scope.FILTER, Scope.ASKED})
"""Scopes of screens over others, and of places to write in: no other key counts there."""


def rivals(key: Key, other: Key) -> bool:
    """Whether two keys count at the same time, so that they must not be the same."""
    if key.scope is other.scope:
        return True
    return Scope.EVERYWHERE in {key.scope, other.scope} and not ALONE & {key.scope, other.scope}


def keys_of(*scopes: Scope, table: Sequence[Key] = KEYS) -> tuple[Key, ...]:
    """The keys of the scopes, in the order of the scopes."""
    return tuple(key for scope in scopes for key in table if key.scope is scope)


def footer_keys(*scopes: Scope, table: Sequence[Key] = KEYS) -> tuple[Key, ...]:
    """The keys that the footer shows for the scopes: a scope's own first, then those that count everywhere."""
    return tuple(key for key in keys_of(*scopes, Scope.EVERYWHERE, table=table) if key.label)
