"""What work will take, by predicted steps and the host's own time between them. Nothing is told before it is known."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from engine.core import Progress, Request, Slice, StepPlan
from engine.messages import Outlook, StepTimes
from engine.scheduling.sequence import Sequence as Waiting
from engine.scheduling.step_time import Prediction
from recorder.words import Role

_FORGETTING = 0.95
"""Weight of the past at every new pass: about the last 20 count."""
_INERTIA = 7
"""Of eight parts of the host's time, those that the past has."""


class Predictor(Protocol):
    """Tells what a step will take; None where it can't."""

    def predict(self, plan: StepPlan) -> Prediction:
        """What the execution of `plan` will take."""
        ...

    def told(self) -> StepTimes | None:
        """What it has learnt, for who predicts elsewhere; None where that is too little, or known there."""
        ...


class Forecast:
    """Times in ns. The true length of an output is not known: all counts on `max_tokens`, the longest it can be."""

    def __init__(self, predictor: Predictor, step_tokens: int, host_ns: int = 0) -> None:
        self._predictor = predictor
        self._step_tokens = step_tokens
        self.host_ns = host_ns
        """What a pass takes beside its execution, learnt from pass to pass."""
        self._began: int | None = None
        self._exec_ns: int | None = None
        self._tokens = 0
        self._recent_tokens = self._recent_ns = 0.0

    @property
    def token_ns(self) -> float:
        """Time a computed token has taken of late; 0 before any was."""
        return self._recent_ns / self._recent_tokens if self._recent_tokens else 0.0

    def outlook(self, begun_tokens: int) -> Outlook:
        """For who decides elsewhere."""
        return Outlook(begun_tokens, self.token_ns, self.host_ns, self._predictor.told())

    def begin(self, now: int) -> None:
        """A pass begins at `now`: where the one before executed something, the rest of it was the host's."""
        if self._began is not None and self._exec_ns is not None:
            took = max(now - self._began - self._exec_ns, 0)
            self._recent_tokens = _FORGETTING * self._recent_tokens + self._tokens
            self._recent_ns = _FORGETTING * self._recent_ns + (now - self._began)
            self.host_ns = (_INERTIA * self.host_ns + took) // (_INERTIA + 1) if self.host_ns else took
        self._began, self._exec_ns = now, None

    def executed(self, exec_ns: int, tokens: int) -> None:
        """The pass executed so long, and computed so many tokens."""
        self._exec_ns, self._tokens = exec_ns, tokens

    def pass_ns(self, slices: Sequence[Slice]) -> int | None:
        """One pass of these slices, host included."""
        predicted = self._predictor.predict(StepPlan(tuple(slices))).predicted_ns
        return None if predicted is None else predicted + self.host_ns

    def batch_ns(self, batch: Sequence[Waiting]) -> int | None:
        """All of a batch from its first pass to its last token, on a worker that does nothing else."""
        total = 0
        for slices in self._prefills(batch):
            took = self.pass_ns(slices)
            if took is None:
                return None
            total += took
        most = max(waiting.request.max_tokens for waiting in batch)
        if most == 1:
            return total
        each = self.pass_ns([self._decode(waiting) for waiting in batch])
        return None if each is None else total + (most - 1) * each

    def alone_ns(self, request: Request) -> int | None:
        """One request by itself, from its first pass to the last token that it may have."""
        return self.batch_ns([Waiting(request, Progress(request.rid, request.attempt, queued=0))])

    def mixed_ns(self, decodes: int, tokens: int, context: int) -> int | None:
        """A pass of `decodes` requests that decode with `context` tokens each; of which, where there are any, `tokens`
        of a prompt take the place of one."""
        slices = [Slice(rid, Role.DECODE, 1, context, ()) for rid in range(1, decodes + 1)]
        return self.pass_ns([*slices[1:], Slice(0, Role.PREFILL, tokens, 0, ())] if tokens else slices)

    def _prefills(self, batch: Sequence[Waiting]) -> Iterator[list[Slice]]:
        """The passes that compute the prompts of a batch, each as full as it may be."""
        slices, room = [], self._step_tokens
        for waiting in batch:
            done = waiting.computed
            while done < waiting.known:
                tokens = min(waiting.known - done, room)
                slices.append(Slice(waiting.rid, Role.PREFILL, tokens, done, ()))
                done, room = done + tokens, room - tokens
                if not room:
                    yield slices
                    slices, room = [], self._step_tokens
        if slices:
            yield slices

    def _decode(self, waiting: Waiting) -> Slice:
        """A decode in the middle of its output."""
        request = waiting.request
        return Slice(waiting.rid, Role.DECODE, 1, request.prompt_tokens + request.max_tokens // 2, ())
