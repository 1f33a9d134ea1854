"""What a worker does at one instant, in lines: its pass, who is in it, who waits for what, what changed last."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from console import theme
from console.lanes import Lanes
from console.timeline import Passes
from console.widgets.ink import Line, clean, crop, duration, fit_ends, rule, width_of
from recorder.words import Role

_ROLES = {
    Role.PREFILL: theme.PHASES["prefill"],
    Role.DECODE: theme.PHASES["decode"],
    Role.RECOMPUTE: theme.CAUSES["RECOMPUTE"],
}


@dataclass(frozen=True, slots=True)
class Member:
    """One request's part in a pass. `tokens` are computed on top of `before` in its cache."""

    step: int
    rid: int
    role: str
    tokens: int
    before: int


def now_lines(
    lanes: Lanes, worker: int, t: int, batch: Sequence[Member] | None, *, width: int, height: int
) -> list[Line]:
    """At most `height` lines about instant `t`; after the last pass, about that one.

    `batch` is the pass's composition, None while it is being fetched.
    """
    passes = lanes.passes.get(worker)
    place = passes.before(t) if passes is not None else None
    if passes is None or place is None:
        quiet: list[Line] = [rule("No pass", width), [("nothing was recorded of a worker at this instant", "muted")]]
        return [*quiet, *_changes(lanes, t, width)][:height]
    scene = _Scene(lanes, passes, place, worker, t)
    lines = [scene.title(width), crop(scene.shape(), width)]
    lines += scene.batch(batch, width, max(height // 2 - 1, 1))
    lines += scene.waiting(width, max(height - len(lines) - 1, 1))
    return [*lines, *_changes(lanes, t, width)][:height]


@dataclass(frozen=True, slots=True)
class _Scene:
    """One pass, the one at `place`, at one instant of it."""

    lanes: Lanes
    passes: Passes
    place: int
    worker: int
    t: int

    def number(self, column: str) -> int:
        return int(self.passes.columns[column][self.place])

    @property
    def kind(self) -> str:
        return self.passes.kind_at(self.place)

    def title(self, width: int) -> Line:
        length = self.number("t_end") - self.number("t_sched")
        name = f"Pass {self.number('step'):,} {theme.STEPS[self.kind].glyph} {self.kind}"
        over = self.t - self.number("t_end")
        when = f"over for {duration(over)}" if over > 0 else f"worker {self.worker}  {duration(length)}"
        return rule(name, width, when)

    def shape(self) -> Line:
        """How the pass divides: planning, execution, handing out."""
        begin, execution, done, end = (self.number(name) for name in ("t_sched", "t_exec", "t_done", "t_end"))
        idle = self.kind == "idle"
        parts = (
            ("plan", execution - begin, theme.CAUSES["HOST_SCHED"]),
            ("wait" if idle else "run", done - execution, theme.STEPS["idle" if idle else "decode"]),
            ("post", end - done, theme.CAUSES["HOST_POST"]),
        )
        line: Line = []
        for name, ns, look in parts:
            line += [(f"{look.glyph} ", look.style), (f"{name} ", "muted"), (f"{duration(ns)}  ", "text")]
        held, total = self.number("kv_used"), self.number("kv_total")
        return [*line, ("KV ", "muted"), (f"{held}/{total}" if total else "-", "text")]

    def batch(self, batch: Sequence[Member] | None, width: int, most: int) -> list[Line]:
        """Who is in it, prefills first."""
        prefills, tokens, decodes = (self.number(name) for name in ("prefills", "prefill_tokens", "decodes"))
        if not prefills and not decodes:
            return [[("nobody in it", "muted")]]
        parts = [f"{prefills} prefill, {tokens:,} tokens"] if prefills else []
        parts += [f"{decodes} decode"] if decodes else []
        head: Line = [("in it  ", "muted"), (" + ".join(parts), "text")]
        return [crop(head, width), *_flow((_member(self.lanes, member) for member in batch or ()), width, most)]

    def waiting(self, width: int, most: int) -> list[Line]:
        """The head with what it waits for, then all that wait."""
        waiting = self.lanes.waiting_at(self.t, self.worker)
        if not waiting:
            return [[("nobody waits", "muted")]]
        head, reason = self.number("head_rid"), self.passes.head_reasons[self.place]
        line: Line = [("waiting ", "muted"), (f"{len(waiting)}", "phase.queue bold")]
        if head >= 0 and reason not in {"", "NONE"}:
            look = theme.cause_look(f"QUEUE/{reason}")
            line += [("  head ", "muted"), (_name(self.lanes, head), "text"), (f" {look.glyph} {reason}", look.style)]
        entries = ([(_waiter(self.lanes, index, self.t), "text")] for index in waiting)
        return [crop(line, width), *_flow(entries, width, most - 1)]


def _member(lanes: Lanes, member: Member) -> Line:
    look = _ROLES.get(Role(member.role), theme.PHASES["decode"])
    line: Line = [(f"{look.glyph} ", look.style), (_name(lanes, member.rid), "text")]
    if member.role != Role.DECODE:
        line.append((f" +{member.tokens}", look.style))
    return line


def _waiter(lanes: Lanes, index: int, t: int) -> str:
    lane = lanes.lane(index)
    return f"{clean(lane.request_id) or lane.rid} {duration(t - (lane['queued'] or t))}"


def _changes(lanes: Lanes, t: int, width: int) -> list[Line]:
    change = lanes.last_change(t)
    if change is None:
        return []
    ago = "now" if change.t == t else f"{duration(t - change.t)} ago"
    what = f" {change.kind.replace('_', ' ')} "
    line: Line = [("last   ", "muted"), (_name(lanes, change.rid), "text"), (what, "accent")]
    if change.other_rid is not None:
        line.append((f"by {_name(lanes, change.other_rid)} ", "bad"))
    return [crop([*line, (ago, "muted")], width)]


def _name(lanes: Lanes, rid: int) -> str:
    index = lanes.of_rid(rid)
    return fit_name(lanes.lane(index).request_id, rid) if index is not None else f"#{rid}"


def fit_name(request_id: str, rid: int, most: int = 18) -> str:
    """A request's name in running text: its id, safe and not too long, or its number."""
    name = clean(request_id) or f"#{rid}"
    return name if len(name) <= most else fit_ends(name, most).rstrip()


def _flow(entries: Iterable[Line], width: int, most: int) -> list[Line]:
    """Entries side by side, wrapped; the last line says that there are more."""
    lines: list[Line] = []
    line: Line = []
    for entry in entries:
        size = width_of(entry)
        if line and width_of(line) + 2 + size > width:
            lines.append(line)
            line = []
            if len(lines) >= most:
                break
        line = [*line, ("  ", "text"), *entry] if line else [(" ", "text"), *entry]
    else:
        return [*lines, line][:most] if line else lines
    if lines:
        lines[-1] = [*crop(lines[-1], width - 2), (" …", "muted")]
    return [crop(line, width) for line in lines[:most]]
