"""Incidents planted into runs, each with its healthy twin: the same requests without the plant.

Where the simulator has the thing, the real scheduler lives through it. Where it has not (collections, slow clients), a
simulated run gets the rows that a real engine writes, and stays a ledger that adds up (`recorder.check`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.config import Config, from_dict
from engine.simulate.run import record_workload
from engine.simulate.setup import Setup
from engine.simulate.workload import Ints, ThinkTime, Workload
from recorder.producer import PartProducer
from recorder.run import RunInfo, create_run, finish, load_info
from recorder.schema import TABLES
from recorder.tables import open_tables
from recorder.words import Source, StallKind

MS: Final = 1_000_000
S: Final = 1_000_000_000
GPU: Final = {"step_us": 8000.0, "decode_us": 150.0, "decode_kv_token_ns": 10.0, "prefill_token_us": 50.0,
              "prefill_pair_ns": 2.0}  # fmt: skip
"""What steps cost: about what an 8B model takes on one accelerator."""

Section = Mapping[str, object]
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Traffic:
    """Chats, and what is planted among them. `config` is by section; `prompts` and `outputs` are least and most."""

    n: int = 400
    rate: float = 6.0
    prompts: tuple[int, int] = (60, 200)
    outputs: tuple[int, int] = (12, 24)
    seed: int = 11
    scheduler: Section = field(default_factory=dict)
    kv: Section = field(default_factory=dict)
    workers: int = 1
    faults: Section = field(default_factory=dict)

    def arrivals(self) -> Ints:
        """Poisson, in ns."""
        gaps = np.random.default_rng([self.seed, 0]).exponential(1 / self.rate, self.n)
        return np.rint(np.cumsum(gaps) * S).astype(np.int64)

    def workload(self) -> Workload:
        """The chats alone."""
        draw = np.random.default_rng([self.seed, 1])
        output = draw.integers(*self.outputs, self.n, endpoint=True)
        return Workload(
            arrival=self.arrivals(),
            prompt_tokens=draw.integers(*self.prompts, self.n, endpoint=True),
            max_tokens=output,
            output_tokens=output,
        )

    def config(self) -> Config:
        """What serves them."""
        base = {"max_num_seqs": 16, "max_num_batched_tokens": 2048}
        plain = {"scheduler": {**base, **self.scheduler}, "kv": dict(self.kv), "cost": dict(GPU)}
        plain["faults"] = dict(self.faults)
        return from_dict(plain, "an incident")

    def served(self, run: Path, workload: Workload | None = None) -> Path:
        """Simulate the workload (the chats, if none is given) into the new folder `run`."""
        workload = workload or self.workload()
        record_workload(Setup.of(self.config(), workload.longest, self.workers), workload, run)
        return run


# -- what is planted before the simulation -----------------------------------------------------------------------------


def one_long_prompt(run: Path) -> Path:
    """A prompt of 30,000 tokens in the middle of the chats (ANCHORS 2: a long prompt stops all generation)."""
    traffic = Traffic()
    chats = traffic.workload()
    at = traffic.n // 2
    prompts = chats.prompt_tokens.copy()
    prompts[at] = 30_000
    return traffic.served(run, replace(chats, prompt_tokens=prompts))


def chats_alone(run: Path) -> Path:
    """The same chats."""
    return Traffic().served(run)


_GROWING: Final = Traffic(n=240, rate=4.0, prompts=(150, 250), outputs=(60, 220))


def kv_storm(run: Path) -> Path:
    """A pool that holds the prompts but not the answers: who runs evicts who runs."""
    return replace(_GROWING, kv={"num_blocks": 110}).served(run)


def kv_plenty(run: Path) -> Path:
    """The same with a pool that holds all."""
    return replace(_GROWING, kv={"num_blocks": 4000}).served(run)


_QUIET: Final = Traffic(n=200, rate=1.0, prompts=(60, 120), outputs=(6, 10))


def batch_timer(run: Path) -> Path:
    """Batches of 16 with a timer of 400 ms, where one request a second comes."""
    timer = {"policy": "static", "max_batch_size": 16, "max_queue_delay_ms": 400.0}
    return replace(_QUIET, scheduler=timer).served(run)


def batch_at_once(run: Path) -> Path:
    """The same without waiting for more."""
    timer = {"policy": "static", "max_batch_size": 16, "max_queue_delay_ms": 0.0}
    return replace(_QUIET, scheduler=timer).served(run)


_BUSY: Final = Traffic(n=500, rate=30.0, outputs=(16, 40), scheduler={"max_num_seqs": 8})


def starved_tier(run: Path) -> Path:
    """Priority that never ages: whoever does not pay waits until nobody who pays does."""
    return _tiers(run, {"order": "priority", "ageing_ms": 3_600_000.0, "min_share": 0.01})


def fair_tiers(run: Path) -> Path:
    """The same load, first come, first served."""
    return _tiers(run, {"order": "fcfs"})


def _tiers(run: Path, order: Section) -> Path:
    traffic = replace(_BUSY, scheduler={**_BUSY.scheduler, **order, "tiers": ["paid", "free"], "priority_levels": 2})
    free = np.random.default_rng(5).random(traffic.n) < 0.15
    tiers = np.where(free, "free", "paid").tolist()
    return traffic.served(run, replace(traffic.workload(), tiers=tiers))


def closed_loop(run: Path) -> Path:
    """24 users who each wait for their answer, in front of 8 seats: the queue is full, and nobody sees it grow."""
    traffic = replace(_BUSY, n=600, outputs=(12, 48))
    think = np.full(traffic.n, 20 * MS)
    first = np.arange(24) * 10 * MS
    return traffic.served(run, replace(traffic.workload(), arrival=first, closed=ThinkTime(24, think)))


def open_loop(run: Path) -> Path:
    """The same requests when they come, below what the engine can do."""
    return replace(_BUSY, n=600, outputs=(12, 48), rate=15.0).served(run)


def saturated(run: Path) -> Path:
    """A rush: for a while twice as many come as 8 seats can serve."""
    traffic = replace(_BUSY, n=600)
    gaps = np.diff(traffic.arrivals(), prepend=0)
    gaps[200:400] //= 3
    gaps[:200] *= 2
    gaps[400:] *= 2
    return traffic.served(run, replace(traffic.workload(), arrival=np.cumsum(gaps)))


def unhurried(run: Path) -> Path:
    """The same requests at a pace that can be kept."""
    return replace(_BUSY, n=600, rate=12.0).served(run)


def cache_misses(run: Path) -> Path:
    """From two thirds of the run on, every prompt begins with something new (say, the time of day)."""
    return _prefixed(run, changed=True)


def cache_hits(run: Path) -> Path:
    """All prompts begin with the same instructions."""
    return _prefixed(run, changed=False)


def _prefixed(run: Path, *, changed: bool) -> Path:
    traffic = Traffic(n=360, rate=4.0, prompts=(4_160, 4_220), kv={"enable_prefix_caching": True})
    number = iter(range(100, 10**6))
    prefixes = [
        [next(number) for _ in range(8)] if changed and index >= traffic.n * 2 // 3 else list(range(8))
        for index in range(traffic.n)
    ]
    return traffic.served(run, replace(traffic.workload(), prefixes=prefixes))


_FLEET: Final = replace(_BUSY, n=700, rate=34.0, workers=2)


def worker_lost(run: Path) -> Path:
    """One of two workers dies in the middle: who was on it begins again, and all wait for the other."""
    return replace(_FLEET, faults={"worker_lost": "1@10"}).served(run)


def both_workers(run: Path) -> Path:
    """The same with both."""
    return _FLEET.served(run)


def refused(run: Path) -> Path:
    """Half as many again as can be served, and a queue of ten: the rest is refused at once."""
    return replace(_BUSY, rate=45.0, scheduler={**_BUSY.scheduler, "max_queue_size": 10}).served(run)


# -- what is planted into a simulated run ------------------------------------------------------------------------------


def slow_clients(run: Path) -> Path:
    """Every 25th client takes two seconds to read its answer; who is answered meanwhile is not held up."""
    return rewritten(chats_alone(_beside(run)), run, _read_slowly)


def collections(run: Path) -> Path:
    """The worker's collector stops it for 600 ms, five times."""
    return rewritten(chats_alone(_beside(run)), run, partial(_stop, StallKind.GC, "2"))


def cold_steps(run: Path) -> Path:
    """Five steps of a shape that was not seen before, each 600 ms longer than it would be later."""
    return rewritten(chats_alone(_beside(run)), run, partial(_stop, StallKind.WARMUP, "decode 8"))


def blocked_loop(run: Path) -> Path:
    """Something keeps the front end's event loop busy, twelve times and for as long as nobody comes. The worker goes
    on, and what it sends lies there meanwhile."""
    return rewritten(chats_alone(_beside(run)), run, _block)


def _read_slowly(rows: Rows) -> None:
    late = {row["rid"]: 2 * S for row in rows["requests"] if row["rid"] % 25 == 0}
    for row in rows["requests"]:
        if row["returned"] is not None:
            row["returned"] += late.get(row["rid"], 0)
    last: dict[int, int] = {}
    for row in rows["spans"]:
        if row["name"] == "return" and row["rid"] in late:
            last[row["start"]] = row["end"] = row["end"] + late[row["rid"]]
    done = {row["step"]: row["t_done"] for row in rows["steps"]}
    for row in rows["deliveries"]:
        row["t_written"] = max(row["t_written"], last.get(done[row["step"]], 0))


def _block(rows: Rows) -> None:
    arrivals = sorted(row["arrival"] for row in rows["requests"])
    calm = sorted(pairwise(arrivals), key=lambda pair: pair[0] - pair[1])[:12]
    for begin, end in ((before + 20 * MS, after - MS) for before, after in calm):
        late = {row["rid"]: end + MS for row in rows["requests"] if begin <= row["returned"] < end}
        for row in rows["requests"]:
            row["returned"] = late.get(row["rid"], row["returned"])
        for row in rows["spans"]:
            if row["name"] == "return":
                row["end"] = late.get(row["rid"], row["end"])
        for row in rows["deliveries"]:
            if begin <= row["t_written"] < end:
                row["t_received"], row["t_written"] = end, end + MS
        stall = {"t_start": begin, "t_end": end, "source": Source.FRONTEND, "device": None, "kind": StallKind.LOOP}
        rows["stalls"].append(stall)


def _stop(kind: StallKind, detail: str, rows: Rows) -> None:
    """Time stands still for everybody: what comes after a stall comes later by as much."""
    steps = [row for row in rows["steps"] if row["kind"] == "decode" and row["num_decode_requests"] >= 2]
    starts = [steps[len(steps) * part // 6]["t_exec"] + MS for part in range(1, 6)]
    pause = 600 * MS
    for place, start in enumerate(starts):
        begin = start + place * pause
        for table, row in ((table, row) for table, some in rows.items() for row in some):
            for column in _instants(table):
                if row[column] is not None and row[column] > begin:
                    row[column] += pause
        stall = {"t_start": begin, "t_end": begin + pause, "source": Source.WORKER, "device": 0, "kind": kind}
        rows["stalls"].append({**stall, "detail": detail})


def _instants(table: str) -> Iterable[str]:
    """The columns that are instants."""
    spans = {"append_ns", "device_ns", "predicted_ns", "decode_only_ns"}
    return [column.name for column in TABLES[table].columns if column.unit == "ns" and column.name not in spans]


def rewritten(run: Path, out: Path, edit: Callable[[Rows], None]) -> Path:
    """Another run with the rows of this one after `edit` has had them."""
    tables = open_tables(run)
    rows: Rows = {name: tables.table(name).to_pylist() for name in TABLES}
    edit(rows)
    info = load_info(run)
    return written(out, rows, info)


def written(out: Path, rows: Rows, info: RunInfo) -> Path:
    """A sealed run of these rows, with the configuration and clock of another."""
    fresh = RunInfo(run_id=out.name, clock=info.clock, config=info.config, model=info.model, workload=info.workload)
    run = create_run(out.parent, fresh)
    producer = PartProducer(run, "planted", TABLES)
    for table, some in rows.items():
        for row in some:
            producer.row(table, **row)
    producer.close()
    finish(run)
    return run


def _beside(run: Path) -> Path:
    return run.with_name(f"{run.name}-before")


@dataclass(frozen=True)
class Incident:
    """`finding` is the kind that has to come first in `plant`, and must not in `twin`."""

    finding: str
    plant: Callable[[Path], Path]
    twin: Callable[[Path], Path]


INCIDENTS: Final[Mapping[str, Incident]] = {
    "a long prompt among chats": Incident("long_prompts", one_long_prompt, chats_alone),
    "a KV cache too small": Incident("kv_exhausted", kv_storm, kv_plenty),
    "a batch timer at low load": Incident("batch_timer", batch_timer, batch_at_once),
    "clients that read slowly": Incident("slow_clients", slow_clients, chats_alone),
    "collections of garbage": Incident("gc_pauses", collections, chats_alone),
    "a blocked event loop": Incident("event_loop", blocked_loop, chats_alone),
    "a starved tier": Incident("starved_tier", starved_tier, fair_tiers),
    "a closed loop": Incident("closed_loop", closed_loop, open_loop),
    "a lost worker": Incident("worker_lost", worker_lost, both_workers),
    "a saturated queue": Incident("queue_saturated", saturated, unhurried),
    "a prefix that changed": Incident("cache_misses", cache_misses, cache_hits),
}
