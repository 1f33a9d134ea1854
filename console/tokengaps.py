"""The gaps between the tokens of one attempt, and what was in each of them. Pure.

Passes tile their worker's time, so they tile the gap between two tokens: the host's work after the pass that gave the
first token, passes that the attempt was left out of, and the pass that gave the second. The words and the rules are
those of `recorder.attribution`, so where all passes were recorded, the parts of all gaps add up to the causes of the
attempt between its first token and its last.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Any, Final

from recorder.attribution.budget import (
    DECODE,
    HOST_GC,
    HOST_LOOP,
    HOST_POST,
    HOST_SCHED,
    HOST_WARMUP,
    PREFILL,
    RECOMPUTE,
    SKIPPED,
    STALLED_BY_PREFILL,
    UNNAMED,
    preempted,
)
from recorder.attribution.stalls import Held
from recorder.words import EventKind, Reason, Role, StallKind, StepKind

_COMPUTING: Final = {Role.PREFILL.value: PREFILL, Role.RECOMPUTE.value: RECOMPUTE, Role.DECODE.value: DECODE}
_STALLED: Final = {StallKind.GC: HOST_GC, StallKind.WARMUP: HOST_WARMUP}
_STALL_KINDS: Final = tuple(StallKind)
_OWN: Final = frozenset({DECODE, RECOMPUTE, PREFILL})


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the attempt's worker. `role` is what the attempt did in it, None where it was left out.

    `alone` is the predicted ns of its execution without prefills; `prefiller` the request with the largest of these.
    """

    step: int
    sched: int
    exec: int
    done: int
    end: int
    mixed: bool = False
    alone: int = 0
    role: str | None = None
    tokens: int = 0
    before: int = 0
    prefiller: int | None = None
    whole: bool = True

    @property
    def after(self) -> int:
        """Tokens in the attempt's KV cache after the pass."""
        return self.before + self.tokens

    @classmethod
    def of(cls, row: dict[str, Any]) -> "Pass":
        """From a row of the question `request_passes`."""
        return cls(
            step=row["step"],
            sched=row["t_sched"],
            exec=row["t_exec"],
            done=row["t_done"],
            end=row["t_end"],
            mixed=row["kind"] == StepKind.MIXED,
            alone=row["decode_only_ns"] or 0,
            role=row["role"],
            tokens=row["tokens"] or 0,
            before=row["computed_before"] or 0,
            prefiller=row["prefiller"],
            whole=row["whole"],
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """From this step on the attempt was without its KV blocks, through `other`; with no reason, it had them back."""

    step: int
    reason: str | None
    other: int | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """A stretch in which the worker's process was held up."""

    begin: int
    end: int
    cause: str


@dataclass(slots=True)
class Gap:
    """From a token to the one after it, which is number `token` of the answer; ns on the run's clock.

    `parts` sum to its length. `culprit` is the request with the largest share in what others caused.
    """

    token: int
    since: int
    until: int
    step: int
    parts: dict[str, int] = field(default_factory=dict)
    blame: dict[int, int] = field(default_factory=dict)

    @property
    def ns(self) -> int:
        """Its length."""
        return self.until - self.since

    @property
    def worst(self) -> str:
        """What else than its own computing took most of it; its own where there was nothing else."""
        return max(self.parts, key=lambda name: (name not in _OWN, self.parts[name], name), default=UNNAMED)

    @property
    def culprit(self) -> int | None:
        """Who took most of it."""
        return max(self.blame, key=lambda rid: (self.blame[rid], -rid), default=None)

    def charge(self, cause: str, ns: int, culprit: int | None = None) -> None:
        """Enter time."""
        if ns:
            self.parts[cause] = self.parts.get(cause, 0) + ns
            if culprit is not None:
                self.blame[culprit] = self.blame.get(culprit, 0) + ns


def token_gaps(
    passes: Sequence[Pass], prompt_tokens: int | None, losses: Iterable[Loss] = (), stalls: Sequence[Stall] = ()
) -> list[Gap]:
    """The gaps in the order of time. `passes` are those from the attempt's first to its last, in order.

    Where passes between two tokens were lost or left out, or parts of them, there were or may have been tokens in them:
    that is no gap.
    """
    losses = sorted(losses, key=lambda loss: loss.step)
    gaps = []
    for (first, before), (last, number) in pairwise(_numbered(passes, prompt_tokens)):
        if passes[last].step - passes[first].step != last - first or number != before + 1:
            continue
        gap = Gap(number, passes[first].done, passes[last].done, passes[last].step)
        _charge(gap, passes[first : last + 1], losses, _Awake(gap, stalls))
        gap.charge(UNNAMED, gap.ns - sum(gap.parts.values()))
        gaps.append(gap)
    return gaps


def _numbered(passes: Sequence[Pass], prompt_tokens: int | None) -> Iterator[tuple[int, int]]:
    """Places of the passes that gave a token, and which one; after a loss as what is in the KV cache tells."""
    number = 0
    for place in token_givers(passes, prompt_tokens):
        told = 0 if prompt_tokens is None else passes[place].after - prompt_tokens + 1
        number = max(number + 1, told)
        yield place, number


def token_givers(passes: Sequence[Pass], prompt_tokens: int | None) -> list[int]:
    """At which places passes stand that gave the attempt a token: a decode, or what caught up with all that was known.

    After `n` tokens prompt + `n` are known; a prefill in chunks gives a token with its last one, and so does a
    recomputation after a preemption. Where an attempt begins with tokens that an earlier one gave, there are more
    chunks than the prompt needs.
    """
    given, known = [], prompt_tokens
    own = [place for place, one in enumerate(passes) if one.role is not None]
    for place, following in zip_longest(own, own[1:]):
        one = passes[place]
        caught_up = known is not None and one.after >= known and not _goes_on(one, passes, following)
        if one.role == Role.DECODE or caught_up:
            given.append(place)
            known = one.after + 1
    return given


def _goes_on(one: Pass, passes: Sequence[Pass], following: int | None) -> bool:
    """Whether the attempt's next part is another chunk of the same prefill."""
    if following is None:
        return False
    other = passes[following]
    return other.role != Role.DECODE and other.before == one.after


def stalls_of(held: Held) -> list[Stall]:
    """The stretches in which a worker was held up, with the cause that they are."""
    kinds = (_STALL_KINDS[kind] for kind in held.kind.tolist())
    causes = [_STALLED.get(kind, HOST_LOOP) for kind in kinds]
    return [Stall(*one) for one in zip(held.begin.tolist(), held.end.tolist(), causes, strict=True)]


def losses_of(events: Iterable[dict[str, Any]]) -> list[Loss]:
    """Preemptions and what undid them, from the events of a request."""
    kinds = {EventKind.PREEMPTED.value, EventKind.RESUMED.value}
    return [
        Loss(row["step"], row["reason"] if row["kind"] == EventKind.PREEMPTED else None, row["other_rid"])
        for row in events
        if row["kind"] in kinds and row["step"] is not None
    ]


class _Awake:
    """Splits stretches of one gap into what the process was held up in, which is charged, and the rest."""

    def __init__(self, gap: Gap, stalls: Sequence[Stall]) -> None:
        self._gap = gap
        self._stalls = [stall for stall in stalls if stall.begin < gap.until and stall.end > gap.since]

    def ns(self, begin: int, end: int) -> int:
        """How much of a stretch it was at work."""
        left = max(end - begin, 0)
        for stall in self._stalls:
            held = max(min(stall.end, end) - max(stall.begin, begin), 0)
            self._gap.charge(stall.cause, held)
            left -= held
        return left


def _charge(gap: Gap, passes: Sequence[Pass], losses: Sequence[Loss], awake: _Awake) -> None:
    """The end of the first pass, all of those in between, and the last one up to its token."""
    first, *between, last = passes
    gap.charge(HOST_POST, awake.ns(first.done, first.end))
    for one in between:
        if one.role is None:
            _leave_out(gap, one, losses, awake)
        else:
            _take_part(gap, one, awake)
            gap.charge(HOST_POST, awake.ns(one.done, one.end))
    _take_part(gap, last, awake)


def _take_part(gap: Gap, one: Pass, awake: _Awake) -> None:
    """Planning and execution. What a decode in a mixed pass took longer than without the prefills was a stall."""
    gap.charge(HOST_SCHED, awake.ns(one.sched, one.exec))
    ns = awake.ns(one.exec, one.done)
    stalled = max(ns - one.alone, 0) if one.role == Role.DECODE and one.mixed and one.alone > 0 else 0
    gap.charge(_COMPUTING[one.role or Role.DECODE], ns - stalled)
    gap.charge(STALLED_BY_PREFILL, stalled, one.prefiller)


def _leave_out(gap: Gap, one: Pass, losses: Sequence[Loss], awake: _Awake) -> None:
    """Without KV blocks since a preemption, or just skipped; nobody knows where slices of the pass are missing."""
    loss = next((loss for loss in reversed(losses) if loss.step <= one.step), None)
    ns = awake.ns(one.sched, one.end)
    if not one.whole:
        gap.charge(UNNAMED, ns)
    elif loss is not None and loss.reason is not None:
        gap.charge(preempted(Reason(loss.reason)), ns, loss.other)
    else:
        gap.charge(SKIPPED, ns)
