"""What every word of a run looks like: a glyph and a colour each, so that nothing depends on colour alone.

A style is a string: colour names and modifiers apart by blanks, such as `phase.decode dim` or `accent bold on.line`.
`resolve` turns it into colours for a dark or a light terminal. Nothing here knows Textual.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from recorder.words import Phase, Reason, Status, StepKind


@dataclass(frozen=True, slots=True)
class Look:
    """One glyph (one cell wide) and the name of its style."""

    glyph: str
    style: str


@dataclass(frozen=True, slots=True)
class Ink:
    """A style with its colours resolved; colours are `#rrggbb`, None for the terminal's own."""

    foreground: str
    background: str | None
    bold: bool
    reverse: bool
    underline: bool
    italic: bool


COLOURS: Final[dict[str, tuple[str, str]]] = {
    "background": ("#10141a", "#fbfbf9"),
    "surface": ("#151a21", "#f3f3f0"),
    "line": ("#29313c", "#d5d8d8"),
    "cursor": ("#1f2a37", "#e3ecf4"),
    "text": ("#c9d1db", "#2b3138"),
    "strong": ("#eef2f6", "#0c1014"),
    "muted": ("#8791a0", "#616b76"),
    "faint": ("#4d5765", "#a9b0b6"),
    "accent": ("#6cb6ff", "#0a62b8"),
    "good": ("#7fc8a0", "#1c7c4c"),
    "warn": ("#e3b65f", "#9a6700"),
    "bad": ("#ef7a80", "#c1272d"),
    "phase.ingress": ("#96a0b0", "#76808c"),
    "phase.queue": ("#dfa353", "#b26b00"),
    "phase.batch_wait": ("#d9cb69", "#8c7a00"),
    "phase.prefill": ("#5fa8ea", "#1767b5"),
    "phase.decode": ("#63bd97", "#1d8055"),
    "phase.preempted": ("#e8676f", "#c1272d"),
    "phase.return": ("#ab92dc", "#7048b0"),
    "host": ("#c48fc0", "#94408c"),
    "flight": ("#8fa3bd", "#4d6888"),
    "stall": ("#ea8a54", "#bb4d0a"),
    "redo": ("#d977a5", "#a82d69"),
    "unnamed": ("#f4f0d8", "#16140a"),
    "run.a": ("#dfa353", "#b26b00"),
    "run.b": ("#5fa8ea", "#1767b5"),
    "run.c": ("#7fc8a0", "#1c7c4c"),
    "run.d": ("#ab92dc", "#7048b0"),
}
"""Each colour for a dark terminal and for a light one."""

SAFE: Final[dict[str, tuple[str, str]]] = {
    "accent": ("#56b4e9", "#0072b2"),
    "good": ("#56b4e9", "#0072b2"),
    "warn": ("#f0e442", "#7d6f00"),
    "bad": ("#e8762c", "#b34700"),
    "phase.queue": ("#e69f00", "#b07a00"),
    "phase.batch_wait": ("#f0e442", "#7d6f00"),
    "phase.prefill": ("#56b4e9", "#0072b2"),
    "phase.decode": ("#1fbf92", "#00785a"),
    "phase.preempted": ("#e8762c", "#9c3d00"),
    "phase.return": ("#eec4de", "#5b2a86"),
    "host": ("#cc79a7", "#9c4a78"),
    "stall": ("#e8762c", "#b34700"),
    "redo": ("#cc79a7", "#9c4a78"),
    "run.a": ("#e69f00", "#9a6a00"),
    "run.b": ("#56b4e9", "#0072b2"),
    "run.c": ("#1fbf92", "#00785a"),
    "run.d": ("#eec4de", "#5b2a86"),
}
"""Instead of those, for eyes that don't tell red from green: after Okabe and Ito (2008), Color Universal Design."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A choice of colours by the name of its theme; `safe` where no two are told apart by red and green alone."""

    name: str
    title: str
    dark: bool
    safe: bool = False
    coloured: bool = True


SCHEMES: Final = (
    Scheme("tailtrace-dark", "dark", dark=True),
    Scheme("tailtrace-light", "light", dark=False),
    Scheme("tailtrace-dark-safe", "dark, colour-blind safe", dark=True, safe=True),
    Scheme("tailtrace-light-safe", "light, colour-blind safe", dark=False, safe=True),
    Scheme("tailtrace-plain", "no colours", dark=True, coloured=False),
)
"""In the order in which a key goes through them."""


def colours_of(scheme: Scheme) -> dict[str, str]:
    """Name -> `#rrggbb`."""
    pairs = {**COLOURS, **SAFE} if scheme.safe else COLOURS
    return {name: pair[0 if scheme.dark else 1] for name, pair in pairs.items()}


PHASES: Final[dict[str, Look]] = {
    Phase.INGRESS: Look("›", "phase.ingress"),
    Phase.QUEUE: Look("░", "phase.queue"),
    Phase.BATCH_WAIT: Look("▒", "phase.batch_wait"),
    Phase.PREFILL: Look("█", "phase.prefill"),
    Phase.DECODE: Look("━", "phase.decode"),
    Phase.PREEMPTED: Look("×", "phase.preempted"),
    Phase.RETURN: Look("»", "phase.return"),
}

STEPS: Final[dict[str, Look]] = {
    StepKind.IDLE: Look("·", "faint"),
    StepKind.PREFILL: Look("█", "phase.prefill"),
    StepKind.DECODE: Look("━", "phase.decode"),
    StepKind.MIXED: Look("▓", "stall"),
}

STATUSES: Final[dict[str, Look]] = {
    Status.OK: Look("●", "good"),
    Status.OPEN: Look("○", "accent"),
    Status.REJECTED: Look("⊘", "warn"),
    Status.EXPIRED: Look("⊖", "warn"),
    Status.CANCELLED: Look("⊗", "muted"),
    Status.FAILED: Look("✗", "bad"),
}

CAUSES: Final[dict[str, Look]] = {
    "INGRESS": Look("›", "phase.ingress"),
    "EARLIER_ATTEMPT": Look("⇥", "redo"),
    "STEP_IN_FLIGHT": Look("~", "flight"),
    f"QUEUE/{Reason.KV_BLOCKS}": Look("▤", "phase.queue"),
    f"QUEUE/{Reason.SEQ_SLOTS}": Look("▥", "phase.queue"),
    f"QUEUE/{Reason.TOKEN_BUDGET}": Look("▦", "phase.queue"),
    "QUEUE/BEHIND_FIFO": Look("░", "phase.queue"),
    "QUEUE/BEHIND_TIER": Look("▧", "phase.queue"),
    f"QUEUE/{Reason.BATCH_TIMER}": Look("▒", "phase.batch_wait"),
    f"QUEUE/{Reason.WORKER_BUSY}": Look("▨", "phase.queue"),
    "HOST_SCHED": Look("◂", "host"),
    "PREFILL": Look("█", "phase.prefill"),
    "DECODE": Look("━", "phase.decode"),
    "STALLED_BY_PREFILL": Look("▓", "stall"),
    "SKIPPED": Look("┄", "flight"),
    "PREEMPTED": Look("×", "phase.preempted"),
    "RECOMPUTE": Look("↺", "redo"),
    "HOST_POST": Look("▸", "host"),
    "HOST_GC": Look("◆", "host"),
    "HOST_LOOP": Look("◈", "host"),
    "HOST_WARMUP": Look("◇", "host"),
    "RETURN": Look("»", "phase.return"),
    "NOT_KEPT": Look("∅", "muted"),
    "UNNAMED": Look("?", "unnamed"),
}
"""In the order of a request's life; what has no name last. `PREEMPTED` stands for every `PREEMPTED/...`."""

RUNS: Final = (Look("A", "run.a"), Look("B", "run.b"), Look("C", "run.c"), Look("D", "run.d"))
"""The runs of a comparison, the one that the others are held against first."""

PLAYHEAD: Final = Look("│", "accent")
DAGGER: Final = "†"
_UNKNOWN: Final = Look("■", "muted")
_MODIFIERS: Final = frozenset({"bold", "dim", "reverse", "underline", "italic"})
_ROLES: Final = frozenset({"aside", "heads"})
"""What a line is to its page (`console.widgets.density`); it looks like nothing."""
_FADE: Final = 0.62
"""How far a dimmed colour moves towards the background."""


def cause_look(cause: str) -> Look:
    """Glyph and style of a cause, `PREEMPTED/...` and causes of newer runs included."""
    family = cause.partition("/")[0]
    return CAUSES.get(cause) or CAUSES.get(family) or (CAUSES["QUEUE/BEHIND_FIFO"] if family == "QUEUE" else _UNKNOWN)


def cause_order(cause: str) -> tuple[int, str]:
    """Sorts causes in the order of a request's life."""
    names = list(CAUSES)
    family = cause.partition("/")[0]
    if cause == "UNNAMED":
        return len(names) + 1, cause
    place = next((i for i, name in enumerate(names) if name in {cause, family}), None)
    queue = names.index("QUEUE/BEHIND_TIER")
    return (place if place is not None else queue if family == "QUEUE" else len(names)), cause


def phase_look(phase: str) -> Look:
    """Glyph and style of a phase."""
    return PHASES.get(phase, _UNKNOWN)


def status_look(status: str) -> Look:
    """Glyph and style of a request's state."""
    return STATUSES.get(status, _UNKNOWN)


def mix(colour: str, other: str, share: float) -> str:
    """`colour` moved by `share` (0 to 1) towards `other`; all `#rrggbb`."""
    channels = ((int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in channels)


@lru_cache(maxsize=1024)
def resolve(style: str, dark: bool = True, safe: bool = False) -> Ink:
    """The colours of a style string. An unknown word in it is a KeyError: styles are code, not data."""
    colours = colours_of(Scheme("", "", dark, safe))
    foreground = colours["text"]
    background: str | None = None
    words = style.split()
    for word in words:
        if word in COLOURS:
            foreground = colours[word]
        elif word.startswith("on."):
            background = colours[word[3:]]
        elif word not in _MODIFIERS | _ROLES:
            raise KeyError(word)
    if "dim" in words:
        foreground = mix(foreground, background or colours["background"], _FADE)
    return Ink(foreground, background, *(word in words for word in ("bold", "reverse", "underline", "italic")))
