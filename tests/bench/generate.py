"""A run of any size in seconds: `python -m tests.bench.generate OUT --requests 1500000`.

Batches of numpy arrays become parts directly, so that the sizes at rest and the speed of readers can be measured on
what an engine would need days for. The ledger is coherent: requests queue, prefill and decode in steps whose slices
name them; spans tile each request's life, six or seven a request, so 1.5 million requests have 10 million spans.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recorder.parts import Part, folder_of, write_part
from recorder.run import ClockAnchor, RunInfo, create_run, finish
from recorder.schema import TABLES, Column
from recorder.words import EventKind, Phase, Reason, Role, Status, StepKind

Array = npt.NDArray[Any]
BATCH: Final = 100_000
STEP_NS: Final = 20_000_000
ARRIVAL_NS: Final = 2_000_000
OUTPUT_TOKENS: Final = 8
PHASES: Final = (Phase.INGRESS, Phase.QUEUE, Phase.BATCH_WAIT, Phase.PREFILL, Phase.DECODE, Phase.RETURN)


class Writer:
    """Rows of one producer, one part a batch and table."""

    def __init__(self, run: Path, producer: str) -> None:
        self._run = run
        self._producer = producer
        self._next = dict.fromkeys(TABLES, 0)

    def write(self, name: str, count: int, columns: Mapping[str, object]) -> None:
        """`count` rows; a column is an array or one value for all, what is missing is unknown."""
        table, first = TABLES[name], self._next[name]
        arrays = [_array(column, columns.get(column.name), count) for column in table.columns]
        self._next[name] += count
        part = Part.of(folder_of(self._run, table), self._producer, first, first + count)
        write_part(table, part, [pa.Table.from_arrays(arrays, schema=table.arrow)])

    @property
    def rows(self) -> dict[str, int]:
        """Rows written so far, by table."""
        return {name: count for name, count in self._next.items() if count}


def _array(column: Column, value: object, count: int) -> pa.Array:
    if value is None and not isinstance(column.kind, int):
        return pa.nulls(count, column.arrow)
    if column.words:
        codes = value if isinstance(value, np.ndarray) else np.full(count, column.words.index(str(value)))
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(column.words, pa.string()))
    if isinstance(value, np.ndarray | pa.Array):
        return pa.array(value).cast(column.arrow)
    return pa.array([value if value is not None else ""] * count, column.arrow)


class Load:
    """Requests in batches, in the order of their arrival, and the steps that serve them."""

    def __init__(self, seed: int) -> None:
        self._dice = np.random.default_rng(seed)
        self._arrived = 0
        self._rid = 0

    def batch(self, count: int) -> dict[str, Array]:
        """The stamps of the next requests; a few in a hundred wait long, so that there is a tail to look at."""
        dice, rid = self._dice, self._rid + 1 + np.arange(count)
        arrival = self._arrived + np.cumsum(dice.exponential(ARRIVAL_NS, count).astype(np.int64) + 1)
        self._arrived, self._rid = int(arrival[-1]), int(rid[-1])
        admitted = arrival + dice.integers(200_000, 900_000, count)
        queued = admitted + dice.integers(20_000, 4_000_000, count)
        wait = dice.exponential(15_000_000, count) * np.where(dice.random(count) < 0.03, 40, 1)
        first_step = (queued + wait.astype(np.int64)) // STEP_NS + 1
        decodes = dice.integers(1, 2 * OUTPUT_TOKENS, count)
        last_step = first_step + decodes
        last_token = _done(last_step)
        return {
            "rid": rid, "arrival": arrival, "admitted": admitted, "queued": queued, "first_step": first_step,
            "batched": np.minimum(queued + dice.integers(0, 2_000_000, count), _exec(first_step)),
            "last_step": last_step, "first_scheduled": _exec(first_step), "first_token": _done(first_step),
            "last_token": last_token, "returned": last_token + dice.integers(100_000, 700_000, count),
            "prompt_tokens": dice.integers(16, 512, count), "output_tokens": decodes + 1,
        }  # fmt: skip


def _jitter(step: Array) -> Array:
    """A step's own hundreds of microseconds, the same whoever asks."""
    return np.asarray(step * 2_654_435_761 % 900_000)


def _exec(step: Array) -> Array:
    return np.asarray(step * STEP_NS + 300_000 + _jitter(step) // 4)


def _done(step: Array) -> Array:
    return np.asarray(step * STEP_NS + 17_000_000 + _jitter(step))


def _end(step: Array) -> Array:
    return np.asarray((step + 1) * STEP_NS)


def write_batch(front: Writer, worker: Writer, made: dict[str, Array], steps: range) -> None:
    """The requests of a batch with their spans and slices, and the steps up to the last that belongs to it alone."""
    count = len(made["rid"])
    request_ids = pa.array([f"cmpl-{rid:016x}" for rid in made["rid"].tolist()], pa.string())
    constant = {"attempt": 1, "worker": 0, "model": "generated", "status": Status.OK, "http_status": 200}
    asked = {"request_id": request_ids, "max_tokens": 2 * OUTPUT_TOKENS, "preemptions": 0}
    front.write("requests", count, {**constant, **asked, **made})
    _write_spans(front, made)
    _write_slices(worker, made)
    _write_steps(worker, np.arange(steps.start, steps.stop))
    events = {"t": made["first_scheduled"], "step": made["first_step"], "rid": made["rid"]}
    worker.write("events", count, {**events, "worker": 0, "kind": EventKind.SCHEDULED, "reason": Reason.NONE})


def _write_spans(front: Writer, made: dict[str, Array]) -> None:
    """In the order of the requests' ends, as a front end writes them."""
    edges = ("arrival", "queued", "batched", "first_scheduled", "first_token", "last_token", "returned")
    stamps = np.stack([made[name] for name in edges], axis=1)
    order = np.argsort(made["returned"])
    start, end = stamps[order, :-1].ravel(), stamps[order, 1:].ravel()
    some = end > start
    names = np.tile([TABLES["spans"].columns[2].words.index(phase.value) for phase in PHASES], len(order))
    columns = {
        "rid": np.repeat(made["rid"][order], len(PHASES)), "name": names, "start": start, "end": end,
        "first_step": np.repeat(made["first_step"][order], len(PHASES)),
        "last_step": np.repeat(made["last_step"][order], len(PHASES)),
    }  # fmt: skip
    front.write("spans", int(some.sum()), {"attempt": 1, "worker": 0, **{k: v[some] for k, v in columns.items()}})


def _write_slices(worker: Writer, made: dict[str, Array]) -> None:
    """In the order of steps, as a worker writes them."""
    length = made["last_step"] - made["first_step"] + 1
    who = np.repeat(np.arange(len(length)), length)
    nth = np.arange(len(who)) - np.repeat(np.cumsum(length) - length, length)
    prompt = made["prompt_tokens"][who]
    step = made["first_step"][who] + nth
    order = np.argsort(step, kind="stable")
    before = np.where(nth == 0, 0, prompt + nth - 1)
    tokens = np.where(nth == 0, prompt, 1)
    words = TABLES["slices"].columns[3].words
    role = np.where(nth == 0, words.index(Role.PREFILL.value), words.index(Role.DECODE.value))
    blocks = -(-(before + tokens) // 16) - -(-before // 16)
    columns = {
        "step": step, "rid": made["rid"][who], "role": role, "tokens": tokens,
        "computed_before": before, "new_blocks": blocks,
    }  # fmt: skip
    worker.write("slices", len(step), {"worker": 0, "cached": 0, **{name: v[order] for name, v in columns.items()}})


def _write_steps(worker: Writer, step: Array) -> None:
    waiting = _jitter(step) % 40
    columns = {
        "step": step, "t_sched": step * STEP_NS, "t_exec": _exec(step), "t_done": _done(step), "t_end": _end(step),
        "waiting": waiting, "running": 10 + waiting // 4, "kv_free": 4096 - 40 * waiting,
    }  # fmt: skip
    worker.write("steps", len(step), {"worker": 0, "kind": StepKind.MIXED, "kv_total": 4096, **columns})
    sent = _done(step) + 50_000
    out = {"step": step, "t_sent": sent, "t_received": sent + 90_000, "t_written": sent + 200_000, "streams": 10}
    worker.write("deliveries", len(step), {"worker": 0, **out})


def generate(out: Path, requests: int, *, seed: int = 0, sealed: bool = True) -> Path:
    """Write a run named `generated-<requests>` into `out` and return it; not `sealed`, it reads as killed."""
    info = RunInfo(run_id=f"generated-{requests}", clock=ClockAnchor(kind="virtual"), model={"name": "generated"})
    run = create_run(out, info)
    front, worker, load = Writer(run, "frontend"), Writer(run, "worker0"), Load(seed)
    step = 0
    for first in range(0, requests, BATCH):
        made = load.batch(min(BATCH, requests - first))
        last = int(made["last_step"].max()) + 1
        write_batch(front, worker, made, range(step, max(step, last)))
        step = max(step, last)
    if sealed:
        finish(run)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the run")
    parser.add_argument("--requests", type=int, default=1_500_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    began = time.monotonic()
    run = generate(args.out, args.requests, seed=args.seed)
    rows = {name: sum(_rows(path) for path in (run / name).glob("*.parquet")) for name in TABLES}
    print(json.dumps({"run": str(run), "seconds": round(time.monotonic() - began, 1), "rows": rows}, indent=2))


def _rows(path: Path) -> int:
    _, first, last = path.stem.rsplit("-", 2)
    return int(last) - int(first)


if __name__ == "__main__":
    main()
