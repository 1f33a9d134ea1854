"""One request inside the scheduler: how far it is computed, the blocks it holds, and the phases it went through."""

from dataclasses import dataclass, field

from engine.core import Progress, Request, Span
from engine.scheduling.prefix import Chain
from recorder.words import Phase, Reason, Role


@dataclass(slots=True)
class Phases:
    """The stretches of one attempt in order: entering one ends the one before, so they tile; empty ones vanish."""

    closed: list[Span] = field(default_factory=list)
    _phase: Phase | None = None
    _start: int = 0
    _first_step: int | None = None

    def enter(self, phase: Phase, t: int, first_step: int | None = None) -> None:
        """Begin `phase` at `t`; `first_step` is the first pass that belongs to it."""
        self.close(t, None if first_step is None else first_step - 1)
        self._phase, self._start, self._first_step = phase, t, first_step

    def close(self, t: int, last_step: int | None) -> None:
        """End the stretch in progress at `t`."""
        if self._phase is not None and t > self._start:
            first = self._first_step
            # Evicted by the plan right after its first token: a decode stretch without a step of its own.
            steps = (None, None) if first is None or last_step is None or last_step < first else (first, last_step)
            self.closed.append(Span(self._phase, self._start, t, *steps))
        self._phase = None


@dataclass(slots=True, eq=False)
class Sequence:
    """A request with its state. `computed` tokens have their keys and values in `blocks`."""

    request: Request
    progress: Progress
    chain: Chain | None = None
    """Its tokens, where blocks are found again by them."""
    phases: Phases = field(default_factory=Phases)
    computed: int = 0
    high_water: int = 0
    """The most tokens it ever had computed: below it, computing is repeating."""
    blocks: tuple[int, ...] = ()
    running: bool = False
    let_in_for: Reason = Reason.NONE
    """Why it started before others, or when it did."""

    @property
    def rid(self) -> int:
        """Number of the request."""
        return self.request.rid

    @property
    def known(self) -> int:
        """Tokens of prompt and output so far."""
        return self.request.prompt_tokens + self.progress.output_tokens

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next output token."""
        return self.known - self.computed

    @property
    def role(self) -> Role:
        """What its next slice does. It is back to DECODE only when it has caught up with what a preemption cost."""
        if self.computed < self.high_water:
            return Role.RECOMPUTE
        return Role.DECODE if self.progress.output_tokens and self.remaining == 1 else Role.PREFILL

    @property
    def finish_reason(self) -> str | None:
        """`length` when it has all the tokens it asked for."""
        return "length" if self.progress.output_tokens >= self.request.max_tokens else None

    def reuse(self, blocks: tuple[int, ...], tokens: int) -> None:
        """It starts with `tokens` tokens that are in these blocks already."""
        self.blocks = blocks
        self.computed = tokens
        self.high_water = max(self.high_water, tokens)
        if not self.progress.preemptions:
            self.progress.cached_tokens = tokens

    def advance(self, tokens: int) -> None:
        """Count `tokens` as computed."""
        before, self.computed = self.computed, self.computed + tokens
        self.progress.recomputed_tokens += max(min(self.computed, self.high_water) - before, 0)
        self.high_water = max(self.high_water, self.computed)

    def compute_phase(self) -> Phase:
        """The phase it is in while it computes."""
        return Phase.PREFILL if self.progress.first_token is None else Phase.DECODE
