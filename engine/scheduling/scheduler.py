"""The scheduler: mechanics that all policies share. When to start is a rule (`rules.py`); the rest is here.

A pass plans in this order: one token for every decode, then the prompts begun earlier, then preempted requests, then
new ones as the rule allows. Blocks of a whole prompt are taken when it starts, so only decodes can run out of blocks;
the newest running request then gives its blocks up and computes everything again later. It resumes before anyone new
starts, and a pass that preempted starts nobody.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from engine.config import Config
from engine.core import (
    EXPIRED,
    Admission,
    Commit,
    End,
    Event,
    Head,
    Occupancy,
    Progress,
    Request,
    Sampled,
    Slice,
    StepPlan,
    StepResult,
)
from engine.messages import Outlook
from engine.scheduling.admission import Room, refusal
from engine.scheduling.blocks import BlockPool
from engine.scheduling.forecast import Forecast, Predictor
from engine.scheduling.line import WaitingLine
from engine.scheduling.order import make_order
from engine.scheduling.prefix import PrefixPool
from engine.scheduling.rules import start_rule
from engine.scheduling.sequence import Sequence
from engine.scheduling.slack import due, prefill_tokens
from engine.scheduling.step_time import StepTimeModel
from recorder.words import EventKind, Phase, Reason, Role


def make_scheduler(
    config: Config, num_blocks: int, max_model_len: int, predictor: Predictor | None = None
) -> "PagedScheduler":
    """The scheduler that `config` asks for, over a pool of `num_blocks` KV blocks.

    What it knows of the future it has from `predictor`, which the loop keeps informed; without one it knows nothing.
    """
    forecast = Forecast(predictor or StepTimeModel(), config.scheduler.max_num_batched_tokens)
    pool = (PrefixPool if config.kv.enable_prefix_caching else BlockPool)(num_blocks, config.kv.block_size)
    watermark = config.kv.watermark_blocks(num_blocks)
    line = WaitingLine(start_rule(config.scheduler), make_order(config.scheduler), forecast, pool, watermark)
    return PagedScheduler(config, line, forecast, pool, max_model_len)


@dataclass(slots=True)
class _Draft:
    """A plan in the making."""

    now: int
    budget: int
    slices: list[Slice] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    preempted: bool = False
    slack_bound: bool = False
    """The budget is what decodes can bear, less than the step could compute."""
    wake_at: int | None = None


class PagedScheduler:
    """Over one pool of KV blocks (SPEC C3, C5). Implements `engine.core.Scheduler`."""

    def __init__(
        self,
        config: Config,
        line: WaitingLine,
        forecast: Forecast,
        pool: BlockPool,
        max_model_len: int,
    ) -> None:
        self._config = config.scheduler
        self._pool = pool
        self._forecast = forecast
        self._watermark = config.kv.watermark_blocks(pool.total)
        self._room = Room(pool.total, pool.block_size, max_model_len)
        self._sequences: dict[int, Sequence] = {}
        self._line = line
        self._running: list[Sequence] = []
        self._step = -1
        self._guarded = config.scheduler.guards_queue

    # -- between passes ------------------------------------------------------------------------------------------

    def add(self, request: Request, now: int) -> Admission:
        """Take a request into the queue, or refuse one that could never finish. A known rid: ValueError."""
        if request.rid in self._sequences:
            raise ValueError(f"request {request.rid} is already here")
        if reason := refusal(request, self._config, self._room):
            return Admission(False, reason)
        progress = Progress(request.rid, request.attempt, queued=now)
        sequence = Sequence(request, progress, self._pool.chain(request.prompt_ids))
        sequence.phases.enter(Phase.QUEUE, now)
        self._sequences[request.rid] = sequence
        self._line.join(sequence)
        return Admission(True)

    def cancel(self, rid: int, now: int) -> Commit:
        """Free all that the request holds and end it; an unknown rid is nothing to do."""
        sequence = self._sequences.get(rid)
        if sequence is None:
            return Commit()
        if not sequence.running:
            self._line.leave(sequence)
        freed = self._drop(sequence)
        event = Event(now, rid, EventKind.CANCELLED, freed_blocks=freed)
        return Commit((event,), (), {rid: self._end(sequence, "cancelled", now)})

    def expire(self, now: int) -> Commit:
        """End, or put behind all others, those never started whose deadline has passed (SPEC A6)."""
        passed = self._line.passed(now)
        if self._config.timeout_action == "delay":
            for sequence in passed:
                self._line.delay(sequence)
            return Commit(tuple(Event(now, sequence.rid, EventKind.DELAYED) for sequence in passed))
        for sequence in passed:
            self._line.leave(sequence)
            self._drop(sequence)
        events = tuple(Event(now, sequence.rid, EventKind.EXPIRED) for sequence in passed)
        return Commit(events, (), {sequence.rid: self._end(sequence, EXPIRED, now) for sequence in passed})

    def occupancy(self) -> Occupancy:
        """How full the worker is now."""
        waiting, running = len(self._line), len(self._running)
        return Occupancy(waiting, self._line.tokens, running, self._pool.free, self._pool.total)

    def outlook(self) -> Outlook | None:
        """What helps to tell when who will be done; None where nobody is refused for that."""
        if not self._guarded:
            return None
        begun = (*self._running, *self._line.preempted)
        left = sum(sequence.remaining for sequence in begun if sequence.role is not Role.DECODE)
        return self._forecast.outlook(left)

    # -- a pass: plan ----------------------------------------------------------------------------------------------

    def plan(self, now: int) -> StepPlan:
        """Decide the pass that began at `now`."""
        self._step += 1
        self._forecast.begin(now)
        draft = _Draft(now, self._config.max_num_batched_tokens)
        decodes = [sequence for sequence in self._running if sequence.role is Role.DECODE]
        prompts = [sequence for sequence in self._running if sequence.role is not Role.DECODE]
        self._plan_decodes(draft, decodes)
        self._heed_slack(draft, prompts)
        self._plan_prompts(draft, prompts)
        head = self._start_waiting(draft)
        self._line.watch_timer(head, now)
        return StepPlan(
            tuple(draft.slices), tuple(draft.events), head, draft.wake_at, self.occupancy(), step=self._step
        )

    def _plan_decodes(self, draft: _Draft, decodes: list[Sequence]) -> None:
        for sequence in decodes:
            if sequence.running and self._make_room(draft, sequence):
                missing = self._pool.blocks_for(sequence.known) - len(sequence.blocks)
                self._add_slice(draft, sequence, 1, missing)

    def _heed_slack(self, draft: _Draft, prompts: list[Sequence]) -> None:
        """Leave prompts no more of the step than the decodes in it can bear."""
        following = prompts[0] if prompts else self._line.front
        if not self._config.tpot_slo_ms or not draft.slices or not following:
            return
        tpot_slo_ns = self._config.tpot_slo_ns
        first_due = min(due(self._sequences[slice_.rid], tpot_slo_ns) for slice_ in draft.slices)
        bearable = prefill_tokens(
            self._config,
            self._forecast,
            draft.slices,
            left_ns=first_due - draft.now,
            room=draft.budget,
            context=following.computed,
        )
        draft.slack_bound = bearable < draft.budget
        draft.budget = bearable

    def _plan_prompts(self, draft: _Draft, prompts: list[Sequence]) -> None:
        for sequence in prompts:
            tokens = self._chunk(sequence, draft.budget)
            if sequence.running and tokens:
                self._add_slice(draft, sequence, tokens, 0)

    def _start_waiting(self, draft: _Draft) -> Head | None:
        """Start from the front of the queue until someone can't; that one is the head, with its reason."""
        while sequence := self._line.front:
            # The last token is always computed: without it there is nothing to sample from (SPEC C4).
            known = self._pool.find(sequence.chain, (sequence.known - 1) // self._pool.block_size)
            reason = self._obstacle(draft, sequence, known)
            if reason is not Reason.NONE:
                return Head(sequence.rid, reason)
            self._start(draft, known)
        return None

    def _obstacle(self, draft: _Draft, sequence: Sequence, known: tuple[int, ...]) -> Reason:
        """Why the front of the queue can't start now; NONE if it can."""
        if draft.preempted:
            return Reason.PREEMPTION
        reason, draft.wake_at = self._line.ask_rule(draft.now, len(self._running))
        if reason is not Reason.NONE:
            return reason
        if len(self._running) >= self._config.max_num_seqs:
            return Reason.SEQ_SLOTS
        if not self._chunk(sequence, draft.budget, len(known) * self._pool.block_size):
            return Reason.DECODE_SLACK if draft.slack_bound else Reason.TOKEN_BUDGET
        watermark = self._watermark if self._running else 0
        held_by_others = len(known) - self._pool.unheld(known)
        if self._pool.blocks_for(sequence.known) - held_by_others + watermark > self._pool.free:
            return Reason.KV_BLOCKS
        return Reason.NONE

    def _start(self, draft: _Draft, known: tuple[int, ...]) -> None:
        """Start the front of the queue, on top of the blocks that are known to hold what it begins with."""
        sequence = self._line.start()
        sequence.running = True
        self._running.append(sequence)
        if sequence.progress.preemptions:
            draft.events.append(Event(draft.now, sequence.rid, EventKind.RESUMED))
        else:
            draft.events.append(Event(draft.now, sequence.rid, EventKind.SCHEDULED, reason=sequence.let_in_for))
        revived = self._pool.unheld(known)
        self._pool.share(sequence.chain, known)
        sequence.reuse(known, len(known) * self._pool.block_size)
        tokens = self._chunk(sequence, draft.budget)
        missing = self._pool.blocks_for(sequence.known) - len(known)
        self._add_slice(draft, sequence, tokens, missing, revived=revived, cached=sequence.computed)

    def _chunk(self, sequence: Sequence, budget: int, cached: int = 0) -> int:
        """Tokens of a prompt, beyond `cached` ones, that a step with `budget` tokens left computes; 0 if none."""
        remaining = sequence.remaining - cached
        if self._config.enable_chunked_prefill:
            limit = self._config.long_prefill_token_threshold or remaining
            return min(remaining, budget, limit)
        # What was computed once may be computed again in parts: with its output it can have outgrown the budget.
        whole_only = sequence.progress.preemptions == 0
        return 0 if whole_only and remaining > budget else min(remaining, budget)

    def _add_slice(
        self, draft: _Draft, sequence: Sequence, tokens: int, missing: int, *, revived: int = 0, cached: int = 0
    ) -> None:
        """Plan `tokens` on `missing` new blocks; `revived` of those it found were free before."""
        sequence.blocks += self._pool.take(missing)
        draft.budget -= tokens
        draft.slices.append(
            Slice(
                sequence.rid,
                sequence.role,
                tokens,
                sequence.computed,
                sequence.blocks,
                missing + revived,
                cached,
                samples=tokens == sequence.remaining,
            )
        )

    # -- preemption ------------------------------------------------------------------------------------------------

    def _make_room(self, draft: _Draft, sequence: Sequence) -> bool:
        """Free a block for the next token of `sequence`, newest request first; False if that was itself."""
        while self._pool.blocks_for(sequence.known) - len(sequence.blocks) > self._pool.free:
            victim = self._running[-1]
            self._preempt(draft, victim, needed_by=sequence)
            if victim is sequence:
                return False
        return True

    def _preempt(self, draft: _Draft, victim: Sequence, needed_by: Sequence) -> None:
        """Throw a victim's computed tokens away. No slice of this pass is its: decodes run oldest first.

        Who ran out itself was pushed out by those before it; the largest of them is named.
        """
        self._running.pop()
        culprit = needed_by
        if victim is needed_by:
            culprit = max(self._running, key=lambda sequence: len(sequence.blocks))
        draft.events.append(
            Event(
                draft.now,
                victim.rid,
                EventKind.PREEMPTED,
                culprit.rid,
                Reason.KV_BLOCKS,
                victim.computed,
                self._free_blocks(victim),
            )
        )
        draft.preempted = True
        victim.running = False
        victim.computed = 0
        if victim.chain:
            victim.chain.forget()
        victim.progress.preemptions += 1
        self._line.join_again(victim)

    # -- a pass: commit --------------------------------------------------------------------------------------------

    def commit(self, plan: StepPlan, result: StepResult, t_exec: int, t_done: int) -> Commit:
        """Take in what the execution of `plan` gave. A slice that should have sampled and did not: ValueError."""
        events = [self._take_effect(event, plan.step, t_exec) for event in plan.events]
        if plan.slices:
            self._forecast.executed(t_done - t_exec, sum(slice_.tokens for slice_ in plan.slices))
        self._advance(plan, result.device_ns)
        expected = [slice_.rid for slice_ in plan.slices if slice_.samples]
        if sorted(expected) != sorted(sampled.rid for sampled in result.sampled):
            raise ValueError(f"step {plan.step} has to sample for requests {expected}, and gave {result.sampled}")
        finished: dict[int, End] = {}
        for sampled in result.sampled:
            events.extend(self._take_token(sampled, plan.step, t_done, finished))
        return Commit(tuple(events), result.sampled, finished)

    def _take_effect(self, event: Event, step: int, t_exec: int) -> Event:
        """A planned change of state happens when the execution begins."""
        sequence = self._sequences[event.rid]
        if event.kind is EventKind.PREEMPTED:
            sequence.phases.enter(Phase.PREEMPTED, t_exec, step)
        else:
            if event.kind is EventKind.SCHEDULED:
                sequence.progress.first_scheduled = t_exec
            sequence.phases.enter(sequence.compute_phase(), t_exec, step)
        return replace(event, t=t_exec)

    def _advance(self, plan: StepPlan, device_ns: int) -> None:
        shares = split(device_ns, [slice_.tokens for slice_ in plan.slices])
        for slice_, share in zip(plan.slices, shares, strict=True):
            sequence = self._sequences[slice_.rid]
            sequence.advance(slice_.tokens)
            self._pool.learn(sequence.chain, sequence.blocks, sequence.computed)
            sequence.progress.device_ns += share

    def _take_token(self, sampled: Sampled, step: int, t_done: int, finished: dict[int, End]) -> Iterator[Event]:
        sequence = self._sequences[sampled.rid]
        progress = sequence.progress
        progress.output_tokens += 1
        self._line.served(sequence, 1)
        if sequence.chain:
            sequence.chain.extend([sampled.token])
        progress.last_token = t_done
        if progress.first_token is None:
            progress.first_token = t_done
            sequence.phases.enter(Phase.DECODE, t_done, step + 1)
            yield Event(t_done, sampled.rid, EventKind.FIRST_TOKEN)
        reason = "stop" if sampled.stop else sequence.finish_reason
        if reason:
            freed = self._drop(sequence)
            yield Event(t_done, sampled.rid, EventKind.FINISHED, freed_blocks=freed)
            finished[sampled.rid] = self._end(sequence, reason, t_done)

    # -- shared ----------------------------------------------------------------------------------------------------

    def _free_blocks(self, sequence: Sequence) -> int:
        blocks, sequence.blocks = sequence.blocks, ()
        return self._pool.give_back(blocks)

    def _drop(self, sequence: Sequence) -> int:
        """Forget a sequence; returns how many blocks came back."""
        del self._sequences[sequence.rid]
        if sequence.running:
            self._running.remove(sequence)
        return self._free_blocks(sequence)

    def _end(self, sequence: Sequence, reason: str, t: int) -> End:
        sequence.phases.close(t, self._step)
        return End(reason, sequence.progress, tuple(sequence.phases.closed))


def split(total: int, weights: list[int]) -> list[int]:
    """`total` in whole parts by weight, that sum to it exactly: each is the difference of two rounded-down sums."""
    whole, seen, given, parts = sum(weights), 0, 0, []
    for weight in weights:
        seen += weight
        upto = total * seen // whole
        parts.append(upto - given)
        given = upto
    return parts
