"""Whether one more can be served in time: the bounds of the queue, the wait to expect, its deadline (SPEC A6, B1, C7).

Who is refused is told when to come again. A request of the highest level has the whole of each bound; all others leave
`reserved_share` of it to those.
"""

import heapq
import math
from collections.abc import Sequence as Items

from engine.config import SchedulerConfig
from engine.core import Admission, Request
from engine.scheduling.forecast import Forecast
from engine.scheduling.order import level
from engine.scheduling.rate import RateLimits
from engine.scheduling.sequence import Sequence
from recorder.words import Reason

_OVERLOADED = 529
_TOO_MANY = 429


class Gate:
    """Decides by what is running and waiting now; what it can't foresee does not refuse anybody."""

    def __init__(self, config: SchedulerConfig, forecast: Forecast) -> None:
        self._config = config
        self._forecast = forecast
        self._rates = RateLimits(config.tenant_burst_tokens)

    def judge(self, request: Request, now: int, running: Items[Sequence], waiting: Items[Sequence]) -> Admission:
        """Take the request, or say why not and when to come again."""
        share = 1.0 if level(request, self._config) == 1 else 1.0 - self._config.reserved_share
        return (
            self._bounds(request, waiting, share)
            or self._wait(running, waiting, share)
            or self._deadline(request, now, running, waiting)
            or self._rate(request, now)
            or Admission(True)
        )

    def _bounds(self, request: Request, waiting: Items[Sequence], share: float) -> Admission | None:
        """The queue is bounded by count and by memory, which prompts take (SPEC A6)."""
        config = self._config
        if config.max_queue_size and len(waiting) + 1 > config.max_queue_size * share:
            return self._overloaded(f"{len(waiting)} requests are waiting", 1, Reason.QUEUE_FULL)
        tokens = sum(sequence.known for sequence in waiting)
        if config.max_queue_tokens and waiting and tokens + request.prompt_tokens > config.max_queue_tokens * share:
            return self._overloaded(f"{tokens} prompt tokens are waiting", request.prompt_tokens, Reason.QUEUE_FULL)
        return None

    def _wait(self, running: Items[Sequence], waiting: Items[Sequence], share: float) -> Admission | None:
        """Queued tokens over recent throughput (SPEC C7)."""
        most_ns = self._config.max_estimated_wait_ms * 1e6 * share
        if not most_ns:
            return None
        queued = sum(sequence.remaining for sequence in (*running, *waiting) if sequence.remaining > 1)
        excess = queued * self._forecast.token_ns - most_ns
        if excess <= 0:
            return None
        words = f"requests that come now would wait about {queued * self._forecast.token_ns / 1e9:.1f} s"
        return Admission(False, words, _OVERLOADED, _ms(excess), Reason.OVERLOADED)

    def _overloaded(self, words: str, tokens: int, why: Reason) -> Admission:
        """To come again when `tokens` more will have been computed."""
        return Admission(False, f"{words}; try again later", _OVERLOADED, _ms(tokens * self._forecast.token_ns), why)

    def _deadline(
        self, request: Request, now: int, running: Items[Sequence], waiting: Items[Sequence]
    ) -> Admission | None:
        """Only who can finish in time is let in; when the excess has been worked off, one like it could (SPEC B1)."""
        if not self._config.deadline_admission or request.deadline is None:
            return None
        alone = self._forecast.alone_ns(request)
        finish = self._finish(request, now, running, waiting)
        if alone is None or finish is None or finish <= request.deadline:
            return None
        late = finish - request.deadline
        words = f"it would be finished {late / 1e6:.1f} ms after its deadline"
        if now + alone > request.deadline:
            return Admission(False, f"{words}, even if nobody else were here", _TOO_MANY, None, Reason.DEADLINE)
        return Admission(False, words, _TOO_MANY, _ms(late), Reason.DEADLINE)

    def _rate(self, request: Request, now: int) -> Admission | None:
        """The last word: who gets past it is charged for (SPEC C8)."""
        rate = self._tokens_per_ns()
        if not rate:
            return None
        tokens = request.prompt_tokens + request.max_tokens
        wait = self._rates.charge(request.tenant, tokens, now, rate)
        if not wait:
            return None
        words = f"the prompt and max_tokens ({tokens} tokens) are more than this tenant's rate allows now"
        return Admission(False, words, _TOO_MANY, _ms(wait), Reason.RATE_LIMIT)

    def _tokens_per_ns(self) -> float:
        """What a tenant may use: set, or its share of what was computed of late, once that is known; 0: no limit."""
        config, token_ns = self._config, self._forecast.token_ns
        if config.tenant_capacity_share and token_ns:
            return config.tenant_capacity_share / token_ns
        return config.tenant_tokens_per_s / 1e9

    def settle(self, sequence: Sequence) -> None:
        """It has ended: what it was charged for and did not use is its tenant's again."""
        request, progress = sequence.request, sequence.progress
        used = progress.output_tokens + (request.prompt_tokens if progress.first_scheduled is not None else 0)
        self._rates.refund(request.tenant, request.prompt_tokens + request.max_tokens - used)

    def _finish(self, request: Request, now: int, running: Items[Sequence], waiting: Items[Sequence]) -> int | None:
        """When it has its last token, if all answers are as long as they may be and nobody overtakes it."""
        slots = self._slots(running)
        for sequence in waiting:
            decodes, prefills = slots[0]
            heapq.heapreplace(slots, (decodes + sequence.request.max_tokens - 1, prefills + 1))
        decodes, prefills = slots[0]
        ahead = [*running, *waiting]
        prompts = [one.remaining for one in ahead if one.remaining > 1 or not one.running]
        takes = self._forecast.mixed_ns(
            decodes + request.max_tokens - 1,
            min(len(ahead) + 1, len(slots)),
            (sum(prompts) + request.prompt_tokens, prefills + 1),
            request.prompt_tokens,
        )
        return None if takes is None else now + takes

    def _slots(self, running: Items[Sequence]) -> list[tuple[int, int]]:
        """Decode passes, and prompts, before each place is free; a batch frees all of its places together."""
        left = [(sequence.request.max_tokens - sequence.progress.output_tokens, 0) for sequence in running]
        policy = self._config.policy
        if policy == "continuous":
            slots = left + [(0, 0)] * (self._config.max_num_seqs - len(left))
        else:
            slots = [max(left, default=(0, 0))] * (1 if policy == "immediate" else self._config.batch_size)
        heapq.heapify(slots)
        return slots


def _ms(ns: float) -> int:
    """Whole ms, at least one: whoever waits so long has waited long enough."""
    return max(1, math.ceil(ns / 1e6))
