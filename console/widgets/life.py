"""One request on a screen of its own, in lines: what it was, and six lists of what happened to it."""

from collections.abc import Mapping
from typing import Any, Final

from console import theme
from console.request import Life, TokenGap
from console.text.request import attempt_line, event_words, parts_of
from console.waterfall import cells, falls_of_rows
from console.widgets.ink import Line, Piece, bar_at, clean, crop, duration, fit, percent, runs, spread
from console.widgets.now import fit_name
from console.widgets.panes import Pane
from recorder.words import Role

_ROLES: Final = {
    Role.PREFILL: theme.PHASES["prefill"],
    Role.DECODE: theme.PHASES["decode"],
    Role.RECOMPUTE: theme.CAUSES["RECOMPUTE"],
}
_OUT: Final = theme.Look("·", "faint")
_CAUSE: Final = 21
_NAME: Final = 20
_ROOT: Final = 14
_SHORT: Final = 13
_ROOTED: Final = 100
"""From this width on the root of each cause has a column; below, the selected one is told in words."""


def head_lines(life: Life, outside: bool, width: int) -> list[Line]:
    """Who it is, how it ended, what it took: three lines."""
    row = life["request"]
    look = theme.status_look(row["status"])
    http = f" {row['http_status']}" if row["http_status"] is not None else ""
    name: Line = [(f" {clean(row['request_id'] or '') or '(no id)'}", "strong bold")]
    name.append((f"  req:{row['rid']} attempt {row['attempt']}", "muted"))
    if outside:
        name.append(("  outside the filter", "warn"))
    measures: Line = [(" ", "text")]
    for title, column in (("E2E", "e2e_ns"), ("TTFT", "ttft_ns"), ("TPOT", "tpot_ns"), ("queue", "queue_ns")):
        ns = row[column]
        measures += [(f"{title} ", "muted"), (f"{duration(None if ns is None else round(ns))}  ", "strong")]
    return [
        spread(name, [(f"{look.glyph} {row['status']}{http} ", look.style)], width),
        crop([*measures, *_tokens(row)], width),
        crop(_labels(row), width),
    ]


def _tokens(row: Mapping[str, Any]) -> Line:
    counts = [f"{_known(row['prompt_tokens'])} in", f"{_known(row['output_tokens'])} out"]
    if row["cached_tokens"]:
        counts.append(f"{row['cached_tokens']:,} cached")
    line: Line = [("tokens ", "muted"), (", ".join(counts), "text")]
    if row["preemptions"]:
        line.append((f", preempted {row['preemptions']}×", "bad"))
    return line


def _labels(row: Mapping[str, Any]) -> Line:
    labels = ((name, row[name]) for name in ("tier", "tenant", "model", "worker"))
    words = " · ".join(f"{name} {clean(str(value))}" for name, value in labels if value not in {None, ""})
    line: Line = [(f" {words}", "muted")]
    if row["queue_depth"] is not None:
        line.append((f" · {row['queue_depth']:,} waiting when it arrived", "muted"))
    if row["reason"]:
        line.append((f" · {clean(row['reason'])}", "warn" if row["status"] != "ok" else "text"))
    return line


def panes_of(life: Life, *, pending: bool = False) -> list[Pane]:
    """Its causes, token gaps, passes, neighbours, attempts and events; the causes may be `pending`."""
    return [_causes(life, pending), _gaps(life), _passes(life), _neighbours(life), _attempts(life), _events(life)]


def in_order_of_life(life: Life) -> list[dict[str, Any]]:
    """Its causes as it met them, of equal ones the largest first."""
    return sorted(life["causes"], key=lambda row: (theme.cause_order(row["cause"]), -row["ns"]))


def _causes(life: Life, pending: bool) -> Pane:
    """Each cause with its root and its culprit; the bars are a waterfall that ends at end to end."""
    rows = in_order_of_life(life)
    steps, whole, e2e = falls_of_rows(rows), sum(row["ns"] for row in rows), life["request"]["e2e_ns"]

    def draw(i: int, width: int) -> Line:
        step, row, look = steps[i], rows[i], theme.cause_look(rows[i]["cause"])
        line: Line = [
            (f"{look.glyph} ", look.style),
            (fit(step.cause + ("" if step.measured else "~"), _CAUSE), "text"),
            (fit(duration(step.ns), 9, "right"), "strong"),
            (fit(percent(step.ns / whole if whole else None), 7, "right") + " ", "muted"),
        ]
        named = _NAME + 1 + (_ROOT if width >= _ROOTED else 0)
        room = max(width - _CAUSE - 19 - named, 0)
        line += [*bar_at(cells(step.before, step.ns, whole, room), room, look.glyph, look.style), (" ", "text")]
        if width >= _ROOTED:
            line.append((fit(_root(row), _ROOT), "phase.queue"))
        return [*line, (fit(_culprit(row["culprit"], row["culprit_id"]), _NAME), "muted")]

    def say(i: int) -> Line:
        row = rows[i]
        line: Line = [(f"{row['ns']:,} ns", "strong")]
        if row["culprit"] is not None:
            line += [(" because of ", "muted"), (_name(row["culprit"], row["culprit_id"]), "strong")]
        if _root(row):
            line += [(", root ", "muted"), (_root(row), "phase.queue")]
        return line if row["measured"] else [*line, (", modelled", "warn")]

    summed = "= E2E" if whole == e2e else "E2E not known" if e2e is None else f"≠ E2E {e2e:,} ns"
    note = f"sum {whole:,} ns {summed}" if rows else "working them out …" if pending else "not attributed"
    arrival = life["request"]["arrival"]
    return Pane("Causes", note, len(rows), draw, say, lambda i: rows[i]["culprit"], lambda i: arrival + steps[i].before)


def _gaps(life: Life) -> Pane:
    """The longest first; each as long a bar as it is of the longest, in the glyphs of what was in it."""
    gaps, begin = life["gaps"], life["request"]["arrival"]
    longest = gaps[0]["ns"] if gaps else 0

    def draw(i: int, width: int) -> Line:
        gap = gaps[i]
        named = _NAME if width >= _ROOTED else _SHORT
        room = max(width - 58 - named, 0)
        look, most = theme.cause_look(gap["worst"]), duration(gap["parts_ns"].get(gap["worst"], 0))
        return [
            (fit(f"token {gap['token']:,}", 10), "text"),
            (fit(duration(gap["ns"]), 8, "right"), "strong"),
            (fit(f"+{duration(gap['since'] - begin)}", 9, "right") + " ", "muted"),
            *_composition(gap, longest, room),
            (f" {look.glyph} ", look.style),
            (fit(gap["worst"], 18), "text"),
            (fit(most, 8, "right") + " ", "text"),
            (fit(_culprit(gap["culprit"], gap["culprit_id"]), named), "muted"),
        ]

    return Pane(
        "Token gaps",
        f"longest of {len(gaps):,} first",
        len(gaps),
        draw,
        lambda i: parts_of(gaps[i]),
        lambda i: gaps[i]["culprit"],
        lambda i: gaps[i]["since"],
    )


def _composition(gap: TokenGap, longest: int, room: int) -> Line:
    """The parts of a gap side by side, the largest first; whatever was in it is seen as far as there are cells."""
    size = len(cells(0, gap["ns"], longest, room))
    drawn: list[Piece] = []
    before = 0
    for cause, ns in gap["parts_ns"].items():
        look = theme.cause_look(cause)
        before += ns
        stop = (2 * before * size + gap["ns"]) // (2 * gap["ns"]) if gap["ns"] else 0
        drawn += [(look.glyph, look.style)] * (stop - len(drawn))
    return runs([*drawn, *[(" ", "text")] * (room - len(drawn))])


def _passes(life: Life) -> Pane:
    """Every pass from its first to its last: what it did there, and with whom it shared it."""
    rows, begin = life["passes"], life["request"]["arrival"]

    def draw(i: int, width: int) -> Line:
        row = rows[i]
        step, role = theme.STEPS[row["kind"]], row["role"]
        look = _OUT if role is None else _ROLES[Role(role)]
        part = "left out" if role is None else f"{role} {row['tokens']:,}"
        shared = f"{len(row['beside']):,} beside it" if row["beside"] else "alone" if role is not None else ""
        prefill = f", {row['prefill_tokens']:,} of prefill by {_name(row['prefiller'], row['prefiller_id'])}"
        return crop(
            [
                (f"{step.glyph} ", step.style),
                (fit(f"{row['step']:,}", 9), "text"),
                (fit(f"+{duration(row['t_sched'] - begin)}", 9, "right"), "muted"),
                (fit(duration(row["t_end"] - row["t_sched"]), 9, "right") + " ", "strong"),
                (f"{look.glyph} ", look.style),
                (fit(part, 15), "text"),
                (shared, "muted"),
                (prefill if row["prefiller"] is not None else "", "stall"),
            ],
            width,
        )

    names = {row["rid"]: row["request_id"] for row in life["neighbours"]}

    def say(i: int) -> Line:
        row = rows[i]
        line: Line = [("with ", "muted")] if row["beside"] else [("nobody else was in it", "muted")]
        for place, (rid, tokens) in enumerate(zip(row["beside"], row["beside_tokens"], strict=True)):
            prefill = place < row["prefills"]
            look = _ROLES[Role.PREFILL if prefill else Role.DECODE]
            amount = f" +{tokens:,}" if prefill else ""
            line += [(f"{look.glyph} ", look.style), (f"{_name(rid, names.get(rid))}{amount}  ", "text")]
        return line

    took_part = sum(row["role"] is not None for row in rows)
    return Pane(
        "Passes",
        f"took part in {took_part:,} of {len(rows):,}",
        len(rows),
        draw,
        say,
        lambda i: rows[i]["prefiller"],
        lambda i: rows[i]["t_sched"],
    )


def _neighbours(life: Life) -> Pane:
    """Who shared its passes: those that prefilled in them first."""
    rows = life["neighbours"]

    def draw(i: int, width: int) -> Line:
        row = rows[i]
        look = theme.STEPS["mixed"] if row["prefill_tokens"] else theme.PHASES["decode"]
        return crop(
            [
                (f"{look.glyph} ", look.style),
                (fit(_name(row["rid"], row["request_id"]), _NAME), "text"),
                (fit(f"{row['passes']:,} shared", 14, "right"), "text"),
                (fit(duration(row["ns"]), 9, "right"), "strong"),
                (f"  {row['tokens']:,} tokens", "muted"),
                (f", {row['prefill_tokens']:,} of prefill" if row["prefill_tokens"] else "", "stall"),
            ],
            width,
        )

    def say(i: int) -> Line:
        return [
            (f"its prefills were in passes of {duration(rows[i]['prefill_ns'])} in all", "muted")
            if rows[i]["prefill_tokens"]
            else ("it only decoded beside it", "muted")
        ]

    return Pane(
        "Neighbours",
        f"{len(rows):,} in its passes",
        len(rows),
        draw,
        say,
        lambda i: rows[i]["rid"],
        lambda _i: None,
    )


def _attempts(life: Life) -> Pane:
    """The attempts that belong together."""
    rows = life["family"]
    own = (life["request"]["rid"], life["request"]["attempt"])

    def draw(i: int, width: int) -> Line:
        return crop(attempt_line(rows[i], rows[0]["arrival"], mine=(rows[i]["rid"], rows[i]["attempt"]) == own), width)

    def say(i: int) -> Line:
        if i == 0:
            return [("the first attempt", "muted")]
        before = rows[i - 1]
        ended = before["returned"]
        waited = "" if ended is None else f"came {duration(rows[i]['arrival'] - ended)} after the one before ended"
        asked = before["retry_after_ms"]
        return [(waited + (f"; {asked:,} ms were asked for" if asked is not None else ""), "muted")]

    return Pane(
        "Attempts",
        f"{len(rows):,}",
        len(rows),
        draw,
        say,
        lambda i: rows[i]["rid"],
        lambda i: rows[i]["arrival"],
    )


def _events(life: Life) -> Pane:
    """What happened to it, in order."""
    rows, begin = life["events"], life["request"]["arrival"]

    def draw(i: int, width: int) -> Line:
        row = rows[i]
        when = fit(f"+{duration(row['t'] - begin)}", 10, "right")
        return crop(
            [(f"{when}  ", "muted"), (fit(row["kind"].replace("_", " "), 13), "text"), (event_words(row), "muted")],
            width,
        )

    return Pane(
        "Events",
        f"{len(rows):,}",
        len(rows),
        draw,
        lambda i: [(f"{rows[i]['t']:,} ns on the run's clock", "muted")],
        lambda i: rows[i]["other_rid"],
        lambda i: rows[i]["t"],
    )


def _culprit(rid: int | None, request_id: str | None) -> str:
    return "" if rid is None else f"← {_name(rid, request_id)}"


def _name(rid: int | None, request_id: str | None) -> str:
    return fit_name(request_id or "", rid or 0, _NAME - 2)


def _root(row: Mapping[str, Any]) -> str:
    root = clean(row["root"] or "")
    return "" if root in {"", "NONE"} or row["cause"].endswith(root) else root


def _known(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
