"""Small synthetic runs for the tests of the screens: a continuous batcher with fixed costs, and odd cases."""

import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from recorder.producer import PartProducer, Producer
from recorder.run import ClockAnchor, RunInfo, create_run, finish
from recorder.words import EventKind, Phase, Reason, Role, Source, Status, StepKind

MS = 1_000_000
TABLES = ("requests", "spans", "steps", "slices", "deliveries", "events", "samples", "recorder")
SEATS, BUDGET, KV = 6, 256, 160


@dataclass
class Job:
    rid: int
    arrival: int
    prompt: int
    output: int
    name: str = ""
    computed: int = 0
    emitted: int = 0
    stamps: dict[str, int] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        return -(-(self.computed + self.emitted + 1) // 16)


def workload(count: int = 24, seed: int = 7) -> list[Job]:
    """Chats with a long prompt among every eight of them."""
    chance = random.Random(seed)
    now, jobs = 0, []
    for rid in range(count):
        long = rid % 8 == 3
        prompt, output = (chance.randint(500, 700), 16) if long else (chance.randint(16, 60), chance.randint(8, 40))
        jobs.append(Job(rid, now, prompt, output, f"{'long' if long else 'chat'}-{rid:03d}"))
        now += chance.randint(4, 60) * MS
    return jobs


class Sim:
    """Serves jobs pass by pass and writes the ledger. `immediate` serves one request at a time."""

    def __init__(self, out: Producer, jobs: list[Job], immediate: bool = False) -> None:
        self.out, self.immediate = out, immediate
        self.coming, self.waiting, self.running = deque(jobs), deque[Job](), list[Job]()
        self.now, self.step = 0, 0

    def run(self) -> int:
        while self.coming or self.waiting or self.running:
            self.one_pass()
        return self.now

    def one_pass(self) -> None:
        begin = self.now
        self.take_in(begin)
        execution = begin + (MS // 10 if self.running or self.waiting else MS // 50)
        plan = self.plan(execution)
        if not plan:
            done = max(self.coming[0].arrival + MS // 5, execution)
            self.write_step(StepKind.IDLE, begin, execution, done, done, [])
            return
        tokens = sum(tokens for _, role, tokens in plan)
        done = execution + 2 * MS + tokens * MS // 16
        end = done + MS // 5
        kind = self.kind(plan)
        for job, role, count in plan:
            self.out.row("slices", step=self.step, worker=0, rid=job.rid, role=role, tokens=count,
                         computed_before=job.computed, cached=0, new_blocks=0)  # fmt: skip
        self.write_step(kind, begin, execution, done, end, plan)
        self.commit(plan, done, end)

    def take_in(self, now: int) -> None:
        while self.coming and self.coming[0].arrival + MS // 5 <= now:
            job = self.coming.popleft()
            job.stamps |= {"queued": now}
            self.waiting.append(job)
            self.event(now, job, EventKind.QUEUED)

    def plan(self, now: int) -> list[tuple[Job, Role, int]]:
        seats = 1 if self.immediate else SEATS
        decodes = [(job, Role.DECODE, 1) for job in self.running if job.computed >= job.prompt]
        budget = BUDGET - len(decodes)
        chunks = []
        for job in [job for job in self.running if job.computed < job.prompt]:
            chunks.append((job, Role.PREFILL, min(budget, job.prompt - job.computed)))
            budget -= chunks[-1][2]
        while self.waiting and len(self.running) < seats and budget > 0:
            job = self.waiting.popleft()
            job.stamps["first_scheduled"] = now
            self.event(now, job, EventKind.SCHEDULED)
            self.running.append(job)
            chunks.append((job, Role.PREFILL, min(budget, job.prompt)))
            budget -= chunks[-1][2]
        return [entry for entry in chunks if entry[2] > 0] + decodes

    @staticmethod
    def kind(plan: list[tuple[Job, Role, int]]) -> StepKind:
        roles = {role for _, role, _ in plan}
        return StepKind.MIXED if len(roles) > 1 else StepKind.PREFILL if Role.PREFILL in roles else StepKind.DECODE

    def commit(self, plan: list[tuple[Job, Role, int]], done: int, end: int) -> None:
        for job, role, count in plan:
            job.computed += count if role is Role.PREFILL else 0
            if job.computed >= job.prompt:
                job.emitted += 1
                if job.emitted == 1:
                    job.stamps["first_token"] = done
                    self.event(done, job, EventKind.FIRST_TOKEN)
                if job.emitted == job.output:
                    self.end(job, done, end)
        self.out.row("deliveries", worker=0, step=self.step - 1, t_sent=done + MS // 20, t_received=done + MS // 10,
                     t_written=end + MS // 2, streams=len(plan))  # fmt: skip

    def end(self, job: Job, done: int, end: int) -> None:
        job.stamps |= {"last_token": done, "returned": end + MS // 2}
        self.running.remove(job)
        self.event(done, job, EventKind.FINISHED)
        write_request(self.out, job)

    def write_step(self, kind: StepKind, begin: int, execution: int, done: int, end: int,
                   plan: list[tuple[Job, Role, int]]) -> None:  # fmt: skip
        prefills = [entry for entry in plan if entry[1] is Role.PREFILL]
        head = self.waiting[0] if self.waiting else None
        full = len(self.running) >= (1 if self.immediate else SEATS)
        self.out.row(
            "steps", step=self.step, worker=0, t_sched=begin, t_exec=execution, t_done=done, t_end=end, kind=kind,
            num_prefill_requests=len(prefills), sum_prefill_tokens=sum(entry[2] for entry in prefills),
            num_decode_requests=len(plan) - len(prefills), waiting=len(self.waiting),
            running=len(self.running), kv_free=KV - sum(job.blocks for job in self.running), kv_total=KV,
            head_rid=head.rid if head else None,
            head_reason=(Reason.SEQ_SLOTS if full else Reason.TOKEN_BUDGET) if head else Reason.NONE,
            device_ns=done - execution,
            decode_only_ns=2 * MS + (len(plan) - len(prefills)) * MS // 16 if kind is StepKind.MIXED else None,
        )  # fmt: skip
        self.step, self.now = self.step + 1, end

    def event(self, t: int, job: Job, kind: EventKind) -> None:
        self.out.row("events", t=t, worker=0, step=self.step, rid=job.rid, kind=kind, reason=Reason.NONE)


def write_request(out: Producer, job: Job, status: Status = Status.OK, **more: object) -> None:
    """The final row of a request, and its spans."""
    s = job.stamps
    columns: dict[str, object] = {"admitted": job.arrival + MS // 10 if s else None} | s | more
    out.row(
        "requests", rid=job.rid, request_id=job.name, attempt=1, tier="free", model="toy", worker=0,
        arrival=job.arrival, prompt_tokens=job.prompt, max_tokens=job.output, output_tokens=job.emitted,
        status=status, **columns,
    )  # fmt: skip
    if status is not Status.OK:
        return
    bounds = [
        job.arrival,
        *(s[name] for name in ("queued", "first_scheduled", "first_token", "last_token", "returned")),
    ]
    names = (Phase.INGRESS, Phase.QUEUE, Phase.PREFILL, Phase.DECODE, Phase.RETURN)
    for name, start, end in zip(names, bounds, bounds[1:], strict=False):
        if end > start:
            out.row("spans", rid=job.rid, attempt=1, name=name, start=start, end=end, worker=0)


def write_health(out: PartProducer, t: int, drops: int = 0) -> None:
    """The recorder's account of two rings."""
    for table, events in (("steps", 900), ("slices", 4_200)):
        out.row("recorder", t=t, producer="worker0", table_name=table, events=events, lost=drops, drops=drops,
                bytes=events * 40, append_ns=420, durable=t)  # fmt: skip
    out.row("samples", t=t, source=Source.HOST, device=0, name="cpu_percent", value=41.0)


def begin(folder: Path, name: str) -> tuple[Path, PartProducer]:
    """A new run in `folder`, and who writes it."""
    run = create_run(folder, RunInfo(run_id=name, clock=ClockAnchor(kind="virtual"), model={"name": "toy"}))
    return run, PartProducer(run, "worker0", TABLES)


def close(run: Path, out: PartProducer) -> Path:
    """Seal it."""
    out.close()
    finish(run)
    return run


def served(folder: Path, name: str = "continuous", *, immediate: bool = False, count: int = 24, seed: int = 7) -> Path:
    """A run that served a whole workload."""
    run, out = begin(folder, name)
    end = Sim(out, workload(count, seed), immediate).run()
    write_health(out, end)
    return close(run, out)


def empty(folder: Path) -> Path:
    """A run in which nothing happened."""
    return close(*begin(folder, "empty"))


def one_request(folder: Path) -> Path:
    """A run of one request that had the worker for itself."""
    run, out = begin(folder, "one")
    Sim(out, [Job(0, 0, 20, 5, "only")]).run()
    return close(run, out)


def no_duration(folder: Path) -> Path:
    """A run of one request whose stamps are all the same instant."""
    run, out = begin(folder, "instant")
    job = Job(0, 5, 1, 1, "flash", emitted=1)
    names = ("queued", "first_scheduled", "first_token", "last_token", "returned")
    job.stamps = dict.fromkeys(names, 5)
    write_request(out, job, admitted=5)
    return close(run, out)


def all_rejected(folder: Path) -> Path:
    """A run in which every request was sent away at the door."""
    run, out = begin(folder, "rejected")
    for rid in range(7):
        write_request(out, Job(rid, rid * MS, 10, 4, f"no-{rid}"), Status.REJECTED, reason="over capacity",
                      returned=rid * MS + 1000)  # fmt: skip
    return close(run, out)


def mixed_ends(folder: Path) -> Path:
    """A served run with open, cancelled, failed and expired requests too, drops, and names that look like markup."""
    run, out = begin(folder, "mixed")
    jobs = workload(12)
    jobs[0].name, jobs[1].name, jobs[2].name = "[red]x[/", "[@click=app.quit]q", "nul\x00\x1b[31m長い名前の要求"
    end = Sim(out, jobs).run()
    for offset, status in enumerate((Status.OPEN, Status.CANCELLED, Status.FAILED, Status.EXPIRED, Status.REJECTED)):
        job = Job(100 + offset, offset * 50 * MS, 30, 9, f"{status}-1")
        stamps = (
            {}
            if status in {Status.OPEN, Status.REJECTED}
            else {"queued": job.arrival + MS, "returned": job.arrival + 90 * MS}
        )
        write_request(out, job, status, reason=f"[bold]{status}[/]", **stamps)
    write_health(out, end, drops=3)
    return close(run, out)


def damaged(folder: Path) -> Path:
    """A served run whose spans no longer match their checksums."""
    run = served(folder, "damaged")
    part = next((run / "spans").glob("*.parquet"))
    raw = bytearray(part.read_bytes())
    raw[40:80] = bytes(40)
    part.write_bytes(raw)
    return run
