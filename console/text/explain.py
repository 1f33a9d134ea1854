"""An account of the tail as lines: verdict, findings in order with shares, commands to look and try, what is left."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from console.diagnosis import HEALTHY_RATIO
from console.explain.answer import TITLES, open_command, whatif_command
from console.explain.claim import excess_name
from console.explain.finding import Finding, Nature
from console.explain.ranking import Account
from console.explain.rerun import JUDGED, PERCENTILES, Rerun
from console.measures import REPORTED
from console.text.paint import wrapped
from console.text.report import counted, filter_lines, lower_bound_note
from console.widgets.density import ASIDE
from console.widgets.ink import Line, bar, clean, crop, duration, fit, rule

_BAR: Final = 12
_NAME: Final = 22
_LATENCY: Final = 6
_CHANGE: Final = 24
_SAME: Final = 0.01
_MUCH: Final = 0.2
"""So much that has no cause is part of the verdict."""
_MOST: Final = 0.5
_INDENT: Final = "     "
_GLYPHS: Final = {
    Nature.MEASUREMENT: ("!", "bad"),
    Nature.ANSWERS: ("⊘", "bad"),
    Nature.TIME: ("▸", "warn"),
    Nature.WORK: ("·", "muted"),
}
"""What a finding is about, by glyph and colour."""
_STATES: Final = {
    "recording": "The run is still recorded: this is the account of what has come so far.",
    "killed": "The run was killed: this is the account of what it had written.",
}
_GRADES: Final = {"bad": ("✗", "bad"), "watch": ("▲", "warn"), "good": ("✓", "good"), "unknown": ("?", "muted")}


def explain_lines(found: Account, run: str, width: int, reruns: Sequence[Rerun] = ()) -> list[Line]:
    """The whole account; `run` is how the run was named, and `reruns` are the settings tried, the best first.

    Lines are at most `width` cells wide, but for commands, which are whole so that they can be copied.
    """
    lines = [*head_lines(found, width), []]
    for place, finding in enumerate(found.prominent, 1):
        lines += [*finding_lines(finding, place, width), *_commands(found, finding, run), []]
    lines += [*rerun_lines(reruns, width), []] if reruns else []
    return [*lines, *sum_lines(found, width)]


def head_lines(found: Account, width: int) -> list[Line]:
    """The run, what stands out, and what the account is of."""
    return [crop(line, width) for line in _head(found, width)]


def _head(found: Account, width: int) -> Iterator[Line]:
    evidence = found.evidence
    style = "warn bold" if found.prominent else "good bold"
    yield from wrapped(f"{clean(evidence.run)}: {_verdict(found)}", width, style)
    yield from filter_lines(evidence.only, width)
    yield from wrapped(_tail(found), width, "text")
    if found.whole_ns is not None:
        yield from wrapped(_whole(found), width, ASIDE)
    for file, what in evidence.damages:
        yield from wrapped(clean(f"damaged, its rows may be missing: {file} {what}"), width, "bad")
    if evidence.state in _STATES:
        yield from wrapped(_STATES[evidence.state], width, "warn")
    if evidence.censored:
        yield from wrapped(lower_bound_note(evidence.censored), width, "warn")


def _verdict(found: Account) -> str:
    unknown = f", and {_percent(float(found.unexplained)).strip()} is unexplained"
    return _named(found) + (unknown if found.unexplained >= _MUCH else "")


def _named(found: Account) -> str:
    if found.prominent:
        own = sum(share_of(finding) or 0.0 for finding in found.findings if finding.nature is Nature.WORK)
        names = ", ".join(_lowered(TITLES[finding.kind]) for finding in found.prominent[:3])
        return f"mostly the requests' own work, then {names}" if own > _MOST else names
    if not found.evidence.states:
        return "nothing to explain: no request is recorded"
    if found.whole_ns is None and not found.findings:
        return "nothing to explain: too few answered requests to tell slow ones from typical ones"
    return "nothing stands out"


def _lowered(title: str) -> str:
    """A title inside a sentence; abbreviations stay as they are."""
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def _tail(found: Account) -> str:
    pulse, states = found.evidence.pulse, found.evidence.states
    counts = ", ".join(f"{n:,} {state}" for state, n in sorted(states.items(), key=lambda item: -item[1]))
    if pulse.ratio is None:
        answered = "Half of the answers took no time" if pulse.n else "No request was answered"
        return f"Requests: {counts or 'none'}. {answered}, so there is no latency to explain."
    said = f"P99 {duration(pulse.p99_ns)} is {pulse.ratio:.2f} times P50 {duration(pulse.p50_ns)}"
    healthy = f"healthy up to {HEALTHY_RATIO}"
    return f"Requests: {counts}. {said} ({healthy})."


def _whole(found: Account) -> str:
    evidence = found.evidence
    if found.view == "everyone":
        return (
            f"There is no tail to speak of, so this is where the {duration(round(found.whole_ns or 0))} of a typical"
            f" request go ({counted(evidence.typical.n, 'request')} from p25 to p75)."
        )
    name = excess_name(evidence)
    return (
        f"{evidence.cohorts.words}. {name[0].upper()}{name[1:]}: the"
        f" {counted(evidence.slow.n, 'slow request')} took {duration(round(found.whole_ns or 0))} more on average than"
        f" the {evidence.typical.n:,} typical ones."
    )


def finding_lines(finding: Finding, place: int, width: int, chosen: bool = False) -> list[Line]:
    """One finding: its share, title, sentences, and what would change it."""
    share, (glyph, style) = share_of(finding), _GLYPHS[finding.nature]
    ground = " on.cursor" if chosen else ""
    heading: Line = [
        (f"{'▸' if chosen else ' '}{place:>2} ", f"accent bold{ground}"),
        (f"{glyph} ", f"{style}{ground}"),
        (TITLES[finding.kind], f"strong bold{ground}"),
    ]
    if share:
        heading += [("  ", "text"), *bar(share, _BAR, style), (f" {_percent(share).strip()}", "strong")]
        heading.append((_aside(finding), "muted"))
    lines = [heading]
    for sentence in finding.sentences:
        lines += _indented(sentence, width, "text")
    if finding.suggestion is not None:
        lines += _indented(f"→ {finding.suggestion.advice}", width, "accent")
    return [crop(line, width) for line in lines]


def _aside(finding: Finding) -> str:
    """How many it touched, and how sure it is."""
    touched = f"  {finding.victims:,} of {finding.slow:,} slow requests" if finding.victims and finding.slow else ""
    return touched + ("" if finding.measured else "  modelled")


def _commands(found: Account, finding: Finding, run: str) -> Iterator[Line]:
    """What to type next; never broken, so that it can be copied."""
    for command in (open_command(run, finding, found.evidence.only), whatif_command(run, finding)):
        if command:
            yield [(_INDENT, "text"), (clean(command), "muted")]


def whatif_lines(finding: Finding, run: str, width: int) -> list[Line]:
    """How to try what the finding suggests."""
    command = whatif_command(run, finding)
    return [crop([(_INDENT, "text"), ("try: ", "muted"), (clean(command), "text")], width)] if command else []


def verdict_lines(found: Account, width: int) -> list[Line]:
    """What the rules of the pulse test say of the latencies (SPEC B3)."""
    lines = [rule("Pulse", width, "SPEC B3")]
    for one in found.evidence.pulse.findings:
        glyph, style = _GRADES[one.grade]
        told = wrapped(clean(f"{one.name}: {one.said}"), max(width - 2, 20), "text")
        lines += [[(f"{glyph} " if place == 0 else "  ", style), *line] for place, line in enumerate(told)]
    return lines


def rerun_lines(reruns: Sequence[Rerun], width: int) -> list[Line]:
    """What the best of the settings that were tried would do, the others, and the error of re-running (SPEC F5)."""
    best = reruns[0]
    lines = [rule(f"What if {clean(best.change)}", width, "ms, re-run as recorded → changed")]
    lines.append([(" " * _LATENCY + "".join(fit(name, _CHANGE) for name in PERCENTILES), "muted")])
    for measure in REPORTED:
        before, after = best.again[measure.name], best.changed[measure.name]
        cells = [fit(f"{_ms(before[name])} → {_ms(after[name])}", _CHANGE) for name in PERCENTILES]
        lines.append([(fit(measure.title, _LATENCY), "text"), ("".join(cells), "strong")])
    for rerun in reruns:
        lines += _judged(rerun, width)
    errors = ", ".join(f"{name} {_signed(best.errors['e2e'][name])}" for name in PERCENTILES)
    lines += wrapped(f"The recorded configuration, re-run, is off the recording's E2E by: {errors}.", width, "muted")
    if not best.trusted:
        lines += wrapped(f"NOT TO BE TRUSTED: {clean('; '.join(best.reasons))}.", width, "bad")
    for note in best.notes:
        lines += wrapped(f"Note: {clean(note)}.", width, "muted")
    return [crop(line, width) for line in lines]


def _judged(rerun: Rerun, width: int) -> list[Line]:
    """Whether a setting helps."""
    better, name = rerun.better, clean(rerun.change)
    if better is None:
        return wrapped(f"{name}: it can't be told, nothing is answered in the re-run", width, "warn")
    if abs(better) < _SAME:
        return wrapped(f"{name}: E2E at {JUDGED} stays as it is, this does not help", width, "warn")
    if better < 0:
        return wrapped(f"{name}: E2E at {JUDGED} rises by {-better:.1%}, this makes it worse", width, "bad")
    return wrapped(f"{name}: E2E at {JUDGED} falls by {better:.1%}", width, "good")


def _ms(ns: float | None) -> str:
    return "-" if ns is None else f"{ns / 1e6:,.1f}"


def _signed(share: float | None) -> str:
    return "-" if share is None else "0.0%" if abs(share) < 0.0005 else f"{share:+.1%}"


def sum_lines(found: Account, width: int) -> list[Line]:
    """All parts, and what has no cause; the sum."""
    if found.whole_ns is None:
        return []
    lines = [rule("Sum", width, _of(found))]
    for finding in found.findings:
        share = share_of(finding)
        if share:
            lines.append(_row(*_GLYPHS[finding.nature], TITLES[finding.kind], share))
    lines.append(_row(" ", "muted", "smaller parts", float(found.small)))
    lines.append(_row("?", "unnamed", "unexplained", float(found.unexplained)))
    lines.append([("  ", "text"), (fit("sum", _NAME), "muted"), (" " * (_BAR + 1), "text"), (_percent(1.0), "strong")])
    for sentence in _why_unexplained(found):
        lines += wrapped(sentence, width, "muted")
    return [crop(line, width) for line in lines]


def share_of(finding: Finding) -> float | None:
    """Its part of what the account is of; None where it is not about time."""
    share: Fraction | float | None = finding.share if finding.share is not None else finding.everyone
    return None if share is None else float(share)


def _of(found: Account) -> str:
    return f"of {excess_name(found.evidence)}" if found.view == "tail" else "of the time of a typical request"


def _row(glyph: str, style: str, name: str, share: float) -> Line:
    left: Line = [(f"{glyph} ", style), (fit(name, _NAME), "text")]
    return [*left, *bar(share, _BAR, style), (" ", "text"), (_percent(share), "text")]


def _percent(share: float) -> str:
    return fit("0.0%" if abs(share) < 0.0005 else f"{share:.1%}", 7, "right")


def _why_unexplained(found: Account) -> Iterator[str]:
    """Why time has no cause, as far as the run says."""
    evidence = found.evidence
    if not evidence.workers:
        yield "No steps were recorded in this run: who was in which step, and who held up whom, can't be known."
    if evidence.left_out:
        yield f"The flight recorder left out {evidence.left_out:,} passes on purpose ([record] keep)."
    if evidence.drops:
        yield f"{counted(evidence.drops, 'record')} were dropped by full rings."
    if found.small < -0.0005:
        yield "Smaller parts are below 0 where slow requests took less than typical ones."


def _indented(text: str, width: int, style: str) -> list[Line]:
    return [[(_INDENT, "text"), *line] for line in wrapped(clean(text), max(width - len(_INDENT), 20), style)]
