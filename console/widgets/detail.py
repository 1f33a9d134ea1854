"""One request in lines: what it asked for, what it took, and the causes that add up to it, with who is to blame."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from console import theme
from console.lanes import Lane, Lanes
from console.waterfall import cells
from console.widgets.ink import Line, bar_at, clean, crop, duration, fit, pad, percent, rule
from console.widgets.now import fit_name

_ANY: Final = 80


@dataclass(frozen=True, slots=True)
class Cause:
    """What one cause took of a request, ns. `culprit` is the request with the largest part in it, of `culprits`."""

    name: str
    ns: int
    measured: bool
    root: str = ""
    culprit: int | None = None
    culprits: int = 0


def in_order_of_life(causes: Sequence[Cause]) -> list[Cause]:
    """Causes as a request meets them; UNNAMED last."""
    return sorted(causes, key=lambda cause: theme.cause_order(cause.name))


def detail_lines(
    lanes: Lanes, lane: Lane, causes: Sequence[Cause] | None, selected: int, *, width: int, height: int
) -> list[Line]:
    """The panel of one request in at most `height` lines; `causes` are None while they are worked out.

    The bars are a waterfall: each cause begins where the one before ended, so the last one ends at end to end.
    """
    lines = [_title(lane, width), *_facts(lane, width)]
    if causes is None:
        return [*lines, [("working out the causes …", "muted")]][:height]
    if not causes:
        return [*lines, *_phases_only(lanes, lane, width)][:height]
    ordered = in_order_of_life(causes)
    shown = _shown(len(ordered), selected, height - len(lines))
    total = sum(cause.ns for cause in ordered)
    before = [sum(cause.ns for cause in ordered[:place]) for place in range(len(ordered))]
    lines += [_row(lanes, ordered[i], before=before[i], total=total, chosen=i == selected, width=width) for i in shown]
    return [*lines, _closing(lane, total, width), _why(lanes, ordered[selected], width)][:height]


def cause_at(lane: Lane, causes: int, selected: int, y: int, height: int) -> int | None:
    """Which of so many causes is in a line of the panel; None where none is."""
    head = 1 + len(_facts(lane, _ANY))
    shown = _shown(causes, selected, height - head)
    return shown[y - head] if 0 <= y - head < len(shown) else None


def _shown(causes: int, selected: int, room: int) -> range:
    """The causes there is room for, about the selected one; two lines are left for what is below them."""
    room = max(room - 2, 1)
    first = max(min(selected - room // 2, causes - room), 0)
    return range(first, min(first + room, causes))


def _title(lane: Lane, width: int) -> Line:
    look = theme.status_look(lane.status)
    attempt = f" attempt {lane.attempt}" if lane.attempt > 1 else ""
    return rule(f"{look.glyph} {fit_name(lane.request_id, lane.rid, max(width - 24, 8))}{attempt}", width, lane.status)


def _facts(lane: Lane, width: int) -> list[Line]:
    measures: Line = []
    for name, column in (("TTFT", "ttft"), ("TPOT", "tpot"), ("E2E", "e2e")):
        measures += [(f"{name} ", "muted"), (f"{duration(lane[column])}  ", "strong")]
    count = f"{_count(lane, 'prompt_tokens')} in, {_count(lane, 'output_tokens')} out"
    tokens: Line = [("tokens ", "muted"), (count, "text")]
    if lane["cached_tokens"]:
        tokens.append((f", {lane['cached_tokens']} cached", "text"))
    if lane["preemptions"]:
        tokens.append((f", preempted {lane['preemptions']}×", "bad"))
    if lane.tier:
        tokens += [("  tier ", "muted"), (clean(lane.tier), "text")]
    lines = [crop(measures, width), crop(tokens, width)]
    if lane.reason:
        style = "text" if lane.status == "ok" else "warn"
        lines.append(crop([("reason ", "muted"), (clean(lane.reason), style)], width))
    return lines


def _count(lane: Lane, column: str) -> str:
    value = lane[column]
    return "-" if value is None else f"{value:,}"


def _row(lanes: Lanes, cause: Cause, *, before: int, total: int, chosen: bool, width: int) -> Line:
    """Cause, time, share, its place in the waterfall, who is behind it. Narrow ones lose the waterfall first."""
    look = theme.cause_look(cause.name)
    ground = " on.cursor" if chosen else ""
    blame = _blame(lanes, cause)
    name_room = 22 if width >= 64 else max(min(22, width - 22), 8)
    line: Line = [
        ("▸" if chosen else " ", "accent bold"),
        (f"{look.glyph} ", look.style),
        (fit(cause.name, name_room), "strong" if chosen else "text"),
        (fit(duration(cause.ns), 8, "right"), "text"),
        ("~" if not cause.measured else " ", "warn"),
        (fit(percent(cause.ns / total if total else None), 6, "right") + " ", "muted"),
    ]
    used = 1 + 2 + name_room + 8 + 1 + 7
    blame_room = min(max(width - used, 0), 26 if width >= 76 else 18) if width - used >= 6 else 0
    fall = width - used - blame_room - 1
    if fall >= 8:
        line += [*bar_at(cells(before, cause.ns, total, fall), fall, look.glyph, look.style), (" ", "text")]
    else:
        blame_room = max(width - used, 0)
    line.append((fit(blame, blame_room), "muted"))
    return pad([(text, style + ground) for text, style in line], width, f"text{ground}")


def _blame(lanes: Lanes, cause: Cause) -> str:
    parts = []
    if cause.culprit is not None:
        parts.append(f"← {_culprit(lanes, cause.culprit)}" + (f" +{cause.culprits - 1}" if cause.culprits > 1 else ""))
    if _has_root(cause):
        parts.append(f"({cause.root})")
    return " ".join(parts)


def _why(lanes: Lanes, cause: Cause, width: int) -> Line:
    """The selected cause in a sentence, as the column may have had no room for it."""
    look = theme.cause_look(cause.name)
    line: Line = [(f"   {look.glyph} ", look.style)]
    if cause.culprit is None:
        line.append(("nobody else is behind this", "faint"))
    else:
        others = cause.culprits - 1
        more = f" and {others} other{'' if others == 1 else 's'}" if others else ""
        line += [("because of ", "muted"), (_culprit(lanes, cause.culprit), "strong"), (more, "muted")]
    if _has_root(cause):
        line += [(", root ", "muted"), (cause.root, "phase.queue")]
    if not cause.measured:
        line.append((", in part modelled", "warn"))
    return crop(line, width)


def _culprit(lanes: Lanes, rid: int) -> str:
    index = lanes.of_rid(rid)
    return fit_name(lanes.lane(index).request_id if index is not None else "", rid, 14)


def _has_root(cause: Cause) -> bool:
    return bool(cause.root) and cause.root != "NONE" and not cause.name.endswith(cause.root)


def _closing(lane: Lane, total: int, width: int) -> Line:
    """The sum, to the nanosecond, and whether it is the request's end to end."""
    e2e = lane["e2e"]
    agrees = e2e == total
    verdict = (
        ("= E2E", "good") if agrees else ("E2E not known", "muted") if e2e is None else (f"≠ E2E {e2e:,} ns", "bad")
    )
    return crop([("   ", "text"), (fit("sum", 8), "muted"), (f"{total:,} ns ", "strong"), verdict], width)


def _phases_only(lanes: Lanes, lane: Lane, width: int) -> list[Line]:
    """What a request without an end still has: the phases it has lived through."""
    lines: list[Line] = []
    for phase, start, end in lanes.spans(lane.index):
        look = theme.phase_look(phase)
        lines.append(crop([(f"  {look.glyph} ", look.style), (fit(phase.replace("_", " "), 12), "text"),
                           (fit(duration(end - start), 9, "right"), "text")], width))  # fmt: skip
    return [*lines, crop([("no answer was returned, so there is no end to end to explain", "muted")], width)]
