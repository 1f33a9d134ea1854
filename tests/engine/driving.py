"""A scheduler driven pass by pass, with every pass checked against an account kept beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from engine.config import Config
from engine.core import Commit, End, Event, Head, Request, Sampled, Slice, StepPlan, StepResult
from engine.scheduling import PagedScheduler, make_scheduler
from engine.scheduling.forecast import Predictor
from recorder.words import EventKind, Reason, Role

PLAN_NS, EXEC_NS = 3, 100


class Terms(TypedDict, total=False):
    """What else a request may bring; fields of `Request`."""

    tier: str
    tenant: str
    priority: int
    deadline: int | None
    prompt_ids: Sequence[int]


@dataclass
class Account:
    """What the outside knows of one request, from slices and events alone."""

    request: Request
    length: int
    blocks: tuple[int, ...] = ()
    computed: int = 0
    output: int = 0
    sliced: int = 0
    reused: int = 0
    lost: int = 0
    device_ns: int = 0
    started: bool = False
    waiting: bool = True


@dataclass
class Driver:
    """Runs passes at 100 ns each and keeps the account. `lengths` are true output lengths by rid."""

    config: Config
    num_blocks: int
    lengths: Mapping[int, int] = field(default_factory=dict)
    max_model_len: int = 10_000
    predictor: Predictor | None = None
    now: int = 0
    plans: list[StepPlan] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ends: dict[int, End] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    accounts: dict[int, Account] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scheduler: PagedScheduler = make_scheduler(
            self.config, self.num_blocks, self.max_model_len, self.predictor
        )
        self._device_ns = 0
        self._written: dict[tuple[int, int], int] = {}
        """What is in each place of each block: a number that stands for a token and all before it."""

    def add(self, rid: int, prompt: int, max_tokens: int, arrival: int | None = None, **terms: Unpack[Terms]) -> bool:
        """Offer a request now."""
        request = Request(rid, prompt, max_tokens, self.now if arrival is None else arrival, **terms)
        admission = self.scheduler.add(request, self.now)
        if admission.accepted:
            self.accounts[rid] = Account(request, min(self.lengths.get(rid, max_tokens), max_tokens))
        else:
            self.refused[rid] = admission.reason
        return admission.accepted

    def cancel(self, rid: int) -> Commit:
        """Its client goes away."""
        commit = self.scheduler.cancel(rid, self.now)
        self._take(commit)
        return commit

    def tick(self) -> StepPlan:
        """One pass, checked. An idle pass lasts until its `wake_at`, or as long as any other."""
        self._take(self.scheduler.expire(self.now))
        plan = self.scheduler.plan(self.now)
        self.plans.append(plan)
        self._check(plan)
        t_exec = self.now + PLAN_NS
        t_done = t_exec + EXEC_NS
        if not plan.slices and plan.wake_at is not None:
            t_done = max(plan.wake_at, t_exec)
        result = self._execute(plan)
        self._take(self.scheduler.commit(plan, result, t_exec, t_done))
        self.now = t_done
        return plan

    def run(self, most: int = 10_000) -> None:
        """Until nobody is left."""
        while self.accounts:
            assert most > 0, "starved"
            self.tick()
            most -= 1

    def happened(self, kind: EventKind) -> list[int]:
        """The rids of all events of a kind, in order."""
        return [event.rid for event in self.events if event.kind is kind]

    def _execute(self, plan: StepPlan) -> StepResult:
        sampled = []
        for part in plan.slices:
            account = self.accounts[part.rid]
            account.computed += part.tokens
            account.sliced += part.tokens
            if part.samples:
                account.output += 1
                stop = account.output == account.length and account.output < account.request.max_tokens
                sampled.append(Sampled(part.rid, account.output, stop))
        device_ns = 97 if plan.slices else 0
        self._device_ns += device_ns
        return StepResult(tuple(sampled), device_ns)

    def _take(self, commit: Commit) -> None:
        self.events += commit.events
        for rid, end in commit.finished.items():
            account = self.accounts.pop(rid)
            assert end.progress.output_tokens == account.output
            assert account.sliced + account.reused == account.computed + account.lost
            assert rid not in self.ends
            self.ends[rid] = end

    # -- what must hold of every plan --------------------------------------------------------------------------------

    def _check(self, plan: StepPlan) -> None:
        self._apply_events(plan)
        for part in plan.slices:
            account = self.accounts[part.rid]
            if part.cached:
                assert account.computed == 0
                assert part.cached == part.computed_before
                account.computed, account.reused = part.cached, account.reused + part.cached
            assert part.computed_before == account.computed
            assert part.blocks[: len(account.blocks)] == account.blocks
            held = {block for other in self.accounts.values() for block in other.blocks}
            assert part.new_blocks == len(set(part.blocks) - held)
            assert len(part.blocks) * self.config.kv.block_size >= part.computed_before + part.tokens
            assert part.tokens >= 1
            assert part.samples == (part.computed_before + part.tokens == self._known(account))
            account.blocks = tuple(part.blocks)
            self._check_content(account, part)
        self._check_totals(plan)
        self._check_order(plan)
        self._check_head(plan)

    def _check_content(self, account: Account, part: Slice) -> None:
        """Blocks hold what their sequence has computed: nobody else wrote to them, and what is shared is alike."""
        ids, size = account.request.prompt_ids, self.config.kv.block_size
        if not ids:
            return
        tokens = [*ids, *range(1, account.output + 1)]
        for place in range(part.computed_before + part.tokens):
            at = (part.blocks[place // size], place % size)
            stands_for = hash(tuple(tokens[: place + 1]))
            if place >= part.computed_before:
                self._written[at] = stands_for
            assert self._written[at] == stands_for

    def _apply_events(self, plan: StepPlan) -> None:
        for event in plan.events:
            account = self.accounts[event.rid]
            account.waiting = event.kind is EventKind.PREEMPTED
            account.started = True
            if event.kind is EventKind.PREEMPTED:
                assert event.lost_tokens == account.computed
                others = [other for other in self.accounts.values() if other is not account]
                shared = {block for other in others for block in other.blocks}
                assert event.freed_blocks == len(set(account.blocks) - shared)
                assert event.reason is Reason.KV_BLOCKS
                assert event.other_rid not in (None, event.rid)
                account.blocks, account.lost, account.computed = (), account.lost + account.computed, 0

    def _check_totals(self, plan: StepPlan) -> None:
        blocks = [block for account in self.accounts.values() for block in account.blocks]
        held = set(blocks)
        assert len(held) == len(blocks) or self.config.kv.enable_prefix_caching
        assert plan.occupancy.kv_free + len(held) == plan.occupancy.kv_total == self.num_blocks
        waiting = [account for account in self.accounts.values() if account.waiting]
        assert plan.occupancy.waiting == len(waiting)
        assert plan.occupancy.waiting_tokens == sum(map(self._known, waiting))
        assert plan.occupancy.running == len(self.accounts) - len(waiting) <= self.config.scheduler.max_num_seqs
        assert sum(part.tokens for part in plan.slices) <= self.config.scheduler.max_num_batched_tokens

    def _check_order(self, plan: StepPlan) -> None:
        rids = [part.rid for part in plan.slices]
        assert len(set(rids)) == len(rids)
        roles = [part.role is Role.DECODE and not part.cached for part in plan.slices]
        assert roles == sorted(roles, reverse=True), "decodes come first"
        assert all(part.tokens == 1 for part in plan.slices if part.role is Role.DECODE)
        kinds = {event.kind for event in plan.events}
        assert EventKind.PREEMPTED not in kinds or len(kinds) == 1, "a pass that preempted starts nobody"

    def _check_head(self, plan: StepPlan) -> None:
        waiting = [account for account in self.accounts.values() if account.waiting]
        assert (plan.head is None) == (not waiting)
        if plan.head:
            assert plan.head.reason is not Reason.NONE
            expected = [a for a in waiting if a.started] or waiting
            if self.config.scheduler.order == "fcfs" and self.config.scheduler.timeout_action == "reject":
                assert plan.head.rid == min(a.request.rid for a in expected)
            assert plan.head.rid in [a.request.rid for a in expected]
        assert plan.slices or not waiting or plan.wake_at is not None, "someone waits, and nothing would happen"
        if plan.head and self.config.scheduler.policy == "continuous":
            assert self._is_held_up(plan, plan.head), f"work conserving: nothing holds {plan.head} up"

    def _is_held_up(self, plan: StepPlan, head: Head) -> bool:
        """Whether what the head is said to wait for is really used up: slots, tokens of the step, or blocks."""
        scheduler, known = self.config.scheduler, self._known(self.accounts[head.rid])
        room = scheduler.max_num_batched_tokens - sum(part.tokens for part in plan.slices)
        watermark = self.config.kv.watermark_blocks(self.num_blocks) if plan.occupancy.running else 0
        blocks = -(-known // self.config.kv.block_size) + watermark
        return {
            Reason.SEQ_SLOTS: plan.occupancy.running == scheduler.max_num_seqs,
            Reason.TOKEN_BUDGET: room < (1 if scheduler.enable_chunked_prefill else known),
            Reason.DECODE_SLACK: scheduler.tpot_slo_ms > 0,
            Reason.KV_BLOCKS: blocks > plan.occupancy.kv_free,
            Reason.PREEMPTION: any(event.kind is EventKind.PREEMPTED for event in plan.events),
        }.get(head.reason, False)

    def _known(self, account: Account) -> int:
        return account.request.prompt_tokens + account.output


def kinds(events: Sequence[Event]) -> list[tuple[int, EventKind]]:
    """Events, shortened."""
    return [(event.rid, event.kind) for event in events]
