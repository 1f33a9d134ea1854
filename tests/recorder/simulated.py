"""Random legal runs for tests, made by a tiny scheduler whose choices are odd but consistent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from recorder.words import EventKind, Phase, Reason, Role, Status
from tests.recorder.ledgers import Ledger, Part, Row

BLOCK: Final = 4
TIERS: Final = ("", "free", "paid")


@dataclass
class _Job:
    """One request of a random run, as its worker sees it."""

    row: Row
    computed: int = 0
    high_water: int = 0
    output: int = 0
    blocks: int = 0
    phases: list[tuple[Phase, int]] = field(default_factory=list)

    @property
    def rid(self) -> int:
        return int(self.row["rid"])

    @property
    def remaining(self) -> int:
        return int(self.row["prompt_tokens"]) + self.output - self.computed

    @property
    def role(self) -> Role:
        if self.computed < self.high_water:
            return Role.RECOMPUTE
        return Role.DECODE if self.output and self.remaining == 1 else Role.PREFILL

    def lacks(self, tokens: int) -> int:
        """Blocks it needs beyond those it has to hold `tokens` more."""
        return max(-(-(self.computed + tokens) // BLOCK) - self.blocks, 0)


class Simulation:
    """A random legal run of one worker, pass by pass, into a ledger. What it decides is odd but consistent."""

    def __init__(self, ledger: Ledger, random: Random, worker: int, jobs: list[Row], blocks: int) -> None:
        self._ledger = ledger
        self._random = random
        self._worker = worker
        self._coming = [_Job(row) for row in sorted(jobs, key=lambda row: row["admitted"])]
        self._waiting: list[_Job] = []
        self._running: list[_Job] = []
        self._free = self._total = blocks
        self._step = 0
        self._t = random.randint(0, 20)

    def run(self, passes: int) -> None:
        """At most so many passes; jobs that are left then stay open."""
        for _ in range(passes):
            if not (self._coming or self._waiting or self._running):
                return
            self._pass()

    def _span(self, most: int = 9) -> int:
        return self._random.choice((0, 1, self._random.randint(0, most)))

    def _pass(self) -> None:
        t_sched = self._t
        t = self._take_in(t_sched)
        events, parts, head = self._plan()
        occupancy = {
            "kv_free": self._free,
            "kv_total": self._total,
            "waiting": len(self._waiting),
            "running": len(self._running),
            "decode_only_ns": self._random.choice((None, 0, 3, 5, 40)),
        }
        t_exec = t + self._span()
        for job, kind, columns in events:
            self._take_effect(job, kind, t_exec, columns)
        t_done = t_exec + self._random.randint(1, 30) if parts else self._wait(t_exec)
        t_sent = t_done + self._span()
        self._t = t_sent + self._span()
        stamps = (t_sched, t_exec, t_done, self._t)
        rows = [Part(job.rid, job.role, tokens, job.computed, new) for job, tokens, new in parts]
        self._ledger.step(
            self._step, stamps, rows, worker=self._worker, head=head, sent=t_sent if parts else None, **occupancy
        )
        self._commit(parts, t_done, t_sent)
        self._step += 1

    def _wait(self, t: int) -> int:
        """An idle pass ends when something comes in, or its timer rings."""
        if self._waiting or not self._coming:
            return t + self._random.randint(1, 20)
        return max(t, int(self._coming[0].row["admitted"])) + self._span()

    def _take_in(self, t: int) -> int:
        while self._coming and self._coming[0].row["admitted"] <= t:
            job = self._coming.pop(0)
            t += self._span(3)
            job.phases.append((Phase.QUEUE, t))
            job.row["queued"] = t
            self._event(t, job, EventKind.QUEUED)
            self._waiting.append(job)
        for job in [job for job in (*self._waiting, *self._running) if self._random.random() < job.row["quits"]]:
            t += self._span(3)
            self._leave(job, EventKind.CANCELLED, t, {})
            job.row["status"] = self._random.choice((Status.CANCELLED, Status.FAILED, Status.EXPIRED)).value
            job.row["returned"] = self._random.randint(job.row["arrival"], t + 40)
            for name in ("queued", "first_scheduled", "first_token", "last_token"):
                job.row[name] = None
        return t

    def _plan(self) -> tuple[list[tuple[_Job, EventKind, Row]], list[tuple[_Job, int, int]], tuple[int, Reason] | None]:
        events: list[tuple[_Job, EventKind, Row]] = []
        parts: list[tuple[_Job, int, int]] = []
        budget = self._random.randint(1, 24)
        for job in list(self._running):
            if job not in self._running or budget < 1 or self._random.random() < 0.1:
                continue  # preempted in this pass, or left out of it
            tokens = min(job.remaining, budget)
            while job in self._running and job.lacks(tokens) > self._free:
                victim = next((each for each in reversed(self._running) if each not in [p[0] for p in parts]), job)
                events.append((victim, EventKind.PREEMPTED, self._preempt(victim, job)))
            if job in self._running:
                parts.append(self._part(job, tokens))
                budget -= tokens
        reason = Reason.PREEMPTION if events else self._start(events, parts, budget)
        return events, parts, (self._waiting[0].rid, reason) if self._waiting else None

    def _preempt(self, victim: _Job, job: _Job) -> Row:
        freed, lost = victim.blocks, victim.computed
        self._free += freed
        victim.blocks = victim.computed = 0
        self._running.remove(victim)
        self._waiting.insert(0, victim)
        victim.row["preemptions"] = victim.row.get("preemptions") or 0
        victim.row["preemptions"] += 1
        other = job.rid if job is not victim else None
        return {"other_rid": other, "reason": Reason.KV_BLOCKS.value, "lost_tokens": lost, "freed_blocks": freed}

    def _start(
        self, events: list[tuple[_Job, EventKind, Row]], parts: list[tuple[_Job, int, int]], budget: int
    ) -> Reason:
        if self._waiting and self._random.random() < 0.2:
            return self._random.choice((Reason.BATCH_TIMER, Reason.WORKER_BUSY, Reason.TOKEN_BUDGET))
        while self._waiting:
            job = self._waiting[0]
            tokens = min(job.remaining, budget)
            if len(self._running) >= 4:
                return Reason.SEQ_SLOTS
            if budget < 1:
                return Reason.TOKEN_BUDGET
            if job.lacks(job.remaining) > self._free:
                return Reason.KV_BLOCKS
            self._running.append(self._waiting.pop(0))
            parts.append(self._part(job, tokens))
            budget -= tokens
            events.append((job, EventKind.RESUMED if job.high_water else EventKind.SCHEDULED, {}))
        return Reason.NONE

    def _part(self, job: _Job, tokens: int) -> tuple[_Job, int, int]:
        new = job.lacks(tokens)
        job.blocks += new
        self._free -= new
        return job, tokens, new

    def _take_effect(self, job: _Job, kind: EventKind, t: int, columns: Row) -> None:
        self._event(t, job, kind, **columns)
        if kind is EventKind.PREEMPTED:
            job.phases.append((Phase.PREEMPTED, t))
            return
        if kind is EventKind.SCHEDULED:
            job.row["first_scheduled"] = t
        job.phases.append((Phase.DECODE if job.output else Phase.PREFILL, t))

    def _commit(self, parts: list[tuple[_Job, int, int]], t_done: int, t_sent: int) -> None:
        for job, tokens, _ in parts:
            samples = tokens == job.remaining
            job.computed += tokens
            job.high_water = max(job.high_water, job.computed)
            if samples:
                self._token(job, t_done, t_sent)

    def _token(self, job: _Job, t: int, t_sent: int) -> None:
        job.output += 1
        job.row["output_tokens"] = job.output
        job.row["last_token"] = t
        if job.output == 1:
            job.row["first_token"] = t
            job.phases.append((Phase.DECODE, t))
            self._event(t, job, EventKind.FIRST_TOKEN)
        if job.output < job.row["max_tokens"]:
            return
        freed = self._leave(job, EventKind.FINISHED, t, {})
        job.row.update(status=Status.OK.value, returned=t_sent + freed + self._span())
        self._spans(job)

    def _leave(self, job: _Job, kind: EventKind, t: int, columns: Row) -> int:
        (self._running if job in self._running else self._waiting).remove(job)
        freed, job.blocks = job.blocks, 0
        self._free += freed
        self._event(t, job, kind, freed_blocks=freed, **columns)
        return freed

    def _event(self, t: int, job: _Job, kind: EventKind, **columns: object) -> None:
        self._ledger.event(t, self._step, job.rid, kind, worker=self._worker, **columns)

    def _spans(self, job: _Job) -> None:
        row = job.row
        phases = [(Phase.INGRESS, row["arrival"]), *job.phases, (Phase.RETURN, row["last_token"])]
        ends = [start for _, start in phases[1:]] + [row["returned"]]
        for (phase, start), end in zip(phases, ends, strict=True):
            if end > start:
                columns = {"rid": row["rid"], "attempt": row["attempt"], "worker": self._worker}
                self._ledger.add("spans", name=phase.value, start=start, end=end, **columns)


def simulate(random: Random, *, requests: int = 12, workers: int = 1, blocks: int = 12, passes: int = 10_000) -> Ledger:
    """A random legal run. With few `passes` it stops early, as if killed, and leaves requests open."""
    ledger = Ledger()
    jobs: Mapping[int, list[Row]] = {worker: [] for worker in range(workers)}
    for rid in range(requests):
        worker = random.randrange(workers)
        arrival = random.randint(0, 40 * requests // 4)
        prompt, output = random.randint(1, 20), random.randint(1, 8)
        row = ledger.request(
            rid,
            arrival,
            status=Status.OPEN,
            worker=worker,
            admitted=arrival + random.randint(0, 5),
            tier=random.choice(TIERS),
            prompt_tokens=prompt,
            max_tokens=output,
        )
        row["quits"] = random.choice((0, 0, 0, 0.1))
        jobs[worker].append(row)
    for worker, rows in jobs.items():
        Simulation(ledger, random, worker, rows, blocks).run(passes)
    for row in ledger.rows["requests"]:
        del row["quits"]
        if row["status"] == Status.OPEN:  # all of these would have come with the end
            row.update(dict.fromkeys(("queued", "first_scheduled", "first_token", "last_token", "output_tokens")))
    return ledger
