"""Small runs with fixed numbers, written through the recorder's own producer: what the golden tests ask about."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from recorder.producer import PartProducer
from recorder.run import ClockAnchor, RunInfo, create_run, finish
from recorder.schema import TABLES
from recorder.words import EventKind, Phase, Reason, Role, Source, StallKind, Status, StepKind

MS = 1_000_000

Row = Mapping[str, Any]
Rows = Mapping[str, Iterable[Row]]


def write_run(folder: Path, rows: Rows, run_id: str = "golden", sealed: bool = True, **info: object) -> Path:
    """A run of these rows; times are on a virtual clock that starts at 0."""
    fixed = {"created": "2026-01-01T00:00:00.000+00:00", "clock": ClockAnchor(kind="virtual")}
    settings: dict[str, Any] = {**fixed, **info}
    run = create_run(folder, RunInfo(run_id=run_id, **settings))
    producer = PartProducer(run, "test", TABLES)
    for table, some in rows.items():
        for row in some:
            producer.row(table, **row)
    producer.close()
    if sealed:
        finish(run)
    return run


def request(rid: int, arrival_ms: int, status: Status = Status.OK, **columns: object) -> dict[str, Any]:
    """One row of `requests`; `*_ms` columns are turned into ns stamps."""
    row: dict[str, Any] = {
        "rid": rid,
        "request_id": f"req-{rid}",
        "attempt": 1,
        "model": "tiny",
        "worker": 0,
        "arrival": arrival_ms * MS,
        "status": status,
        "prompt_tokens": 10,
        "max_tokens": 8,
        "preemptions": 0,
    }
    for name, value in columns.items():
        if isinstance(value, int) and name.endswith("_ms"):
            row[name.removesuffix("_ms")] = value * MS
        else:
            row[name] = value
    return row


def span(rid: int, name: Phase, start_ms: int, end_ms: int) -> dict[str, Any]:
    """One row of `spans`."""
    return {"rid": rid, "attempt": 1, "name": name, "start": start_ms * MS, "end": end_ms * MS, "worker": 0}


def step(number: int, times_ms: tuple[int, int, int, int], kind: StepKind, **columns: object) -> dict[str, Any]:
    """One row of `steps` from its four stamps."""
    t_sched, t_exec, t_done, t_end = (t * MS for t in times_ms)
    row = {"step": number, "worker": 0, "t_sched": t_sched, "t_exec": t_exec, "t_done": t_done, "t_end": t_end}
    return {**row, "kind": kind, "kv_total": 8, "kv_free": 4, "head_reason": Reason.NONE, **columns}


def part(number: int, rid: int, role: Role, tokens: int, before: int) -> dict[str, Any]:
    """One row of `slices`."""
    return {
        "step": number,
        "worker": 0,
        "rid": rid,
        "role": role,
        "tokens": tokens,
        "computed_before": before,
        "cached": 0,
        "new_blocks": 1,
    }


def golden_rows(slow_ms: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Two answered requests and one of every other state, by one worker in five passes.

    Request 1: arrival 0, admitted 1, queued 2, scheduled 4, first token 14, last token 24, returned 27.
    Request 2: arrival 3, admitted 4, queued 4, waits for slots, scheduled 26, its only token 36, returned 38 + slow_ms.
    """
    done = 38 + slow_ms
    return {
        "requests": [
            request(1, 0, Status.OPEN),
            request(
                1,
                0,
                admitted_ms=1,
                queued_ms=2,
                first_scheduled_ms=4,
                first_token_ms=14,
                last_token_ms=24,
                returned_ms=27,
                output_tokens=2,
                http_status=200,
            ),
            request(
                2,
                3,
                admitted_ms=4,
                queued_ms=4,
                first_scheduled_ms=26,
                first_token_ms=36,
                last_token_ms=36,
                returned_ms=done,
                output_tokens=1,
                http_status=200,
            ),
            request(3, 5, Status.REJECTED, returned_ms=6, http_status=429, reason="queue full", output_tokens=0),
            request(4, 6, Status.EXPIRED, returned_ms=20, output_tokens=0),
            request(5, 7, Status.CANCELLED, returned_ms=21, output_tokens=0),
            request(6, 8, Status.FAILED, returned_ms=22, output_tokens=0),
            request(7, 9, Status.OPEN, request_id="[bold]open[/bold]"),
        ],
        "spans": [
            span(1, Phase.INGRESS, 0, 2),
            span(1, Phase.QUEUE, 2, 4),
            span(1, Phase.PREFILL, 4, 14),
            span(1, Phase.DECODE, 14, 24),
            span(1, Phase.RETURN, 24, 27),
            span(2, Phase.INGRESS, 3, 4),
            span(2, Phase.QUEUE, 4, 26),
            span(2, Phase.PREFILL, 26, 36),
            span(2, Phase.RETURN, 36, done),
        ],
        "steps": [
            step(0, (0, 1, 2, 2), StepKind.IDLE, waiting=0, running=0),
            step(
                1,
                (2, 4, 14, 15),
                StepKind.PREFILL,
                waiting=1,
                running=1,
                num_prefill_requests=1,
                sum_prefill_tokens=10,
                num_decode_requests=0,
                head_rid=2,
                head_reason=Reason.SEQ_SLOTS,
            ),
            step(
                2,
                (15, 16, 24, 25),
                StepKind.DECODE,
                waiting=1,
                running=1,
                num_prefill_requests=0,
                sum_prefill_tokens=0,
                num_decode_requests=1,
                head_rid=2,
                head_reason=Reason.SEQ_SLOTS,
            ),
            step(
                3,
                (25, 26, 36, 37),
                StepKind.PREFILL,
                waiting=0,
                running=1,
                num_prefill_requests=1,
                sum_prefill_tokens=10,
                num_decode_requests=0,
            ),
            step(4, (37, 37, 40, 40), StepKind.IDLE, waiting=0, running=0),
        ],
        "slices": [
            part(1, 1, Role.PREFILL, 10, 0),
            part(2, 1, Role.DECODE, 1, 10),
            part(2, 6, Role.PREFILL, 4, 0),
            part(3, 2, Role.PREFILL, 10, 0),
            part(9, 7, Role.PREFILL, 10, 0),
        ],
        "deliveries": [
            {"worker": 0, "step": number, "t_sent": t * MS, "t_received": t * MS, "t_written": t * MS, "streams": 1}
            for number, t in ((1, 14), (2, 24), (3, 36))
        ],
        "events": [
            {"t": 4 * MS, "worker": 0, "step": 1, "rid": 1, "kind": EventKind.SCHEDULED, "reason": Reason.NONE},
            {"t": 26 * MS, "worker": 0, "step": 3, "rid": 2, "kind": EventKind.SCHEDULED, "reason": Reason.NONE},
            {
                "t": 12 * MS,
                "worker": 0,
                "step": 1,
                "rid": 7,
                "kind": EventKind.PREEMPTED,
                "other_rid": 1,
                "reason": Reason.KV_BLOCKS,
                "lost_tokens": 10,
                "freed_blocks": 1,
            },
            {
                "t": 39 * MS,
                "worker": 0,
                "step": 4,
                "rid": 2,
                "kind": EventKind.CANCELLED,
                "reason": Reason.NONE,
                "freed_blocks": 2,
            },
        ],
        "samples": [
            {"t": t * MS, "source": Source.DEVICE, "device": 0, "name": "utilization_percent", "value": value}
            for t, value in ((10, 40.0), (20, 60.0))
        ],
        "stalls": [
            {
                "t_start": 17 * MS,
                "t_end": 18 * MS,
                "source": Source.WORKER,
                "device": 0,
                "kind": StallKind.GC,
                "detail": "2",
            }
        ],
        "recorder": [
            _account(10, "worker0", "steps", 3, 0, 300),
            _account(40, "worker0", "steps", 5, 0, 400),
            _account(40, "worker0", "slices", 5, 2, 200),
        ],
    }


def _account(t_ms: int, producer: str, table: str, events: int, lost: int, append_ns: int) -> dict[str, Any]:
    return {
        "t": t_ms * MS,
        "producer": producer,
        "table_name": table,
        "events": events,
        "lost": lost,
        "drops": lost,
        "bytes": 100 * events,
        "append_ns": append_ns,
        "durable": t_ms * MS,
        "lost_from": (t_ms - 4) * MS if lost else None,
        "lost_until": (t_ms - 2) * MS if lost else None,
    }


CAUSES = (
    (1, "INGRESS", "INGRESS", 1, True, None),
    (1, "UNNAMED", "UNNAMED", 1, True, None),
    (1, "HOST_SCHED", "HOST_SCHED", 3, True, None),
    (1, "PREFILL", "PREFILL", 10, True, None),
    (1, "DECODE", "DECODE", 5, True, None),
    (1, "STALLED_BY_PREFILL", "STALLED_BY_PREFILL", 4, False, 2),
    (1, "RETURN", "RETURN", 3, True, None),
    (2, "INGRESS", "INGRESS", 1, True, None),
    (2, "QUEUE/SEQ_SLOTS", "SEQ_SLOTS", 12, True, 1),
    (2, "QUEUE/BEHIND_FIFO", "KV_BLOCKS", 8, True, 1),
    (2, "QUEUE/BEHIND_FIFO", "KV_BLOCKS", 2, True, 7),
    (2, "PREFILL", "PREFILL", 10, True, None),
    (2, "RETURN", "RETURN", 2, True, None),
    (5, "INGRESS", "INGRESS", 14, True, None),
)
"""rid, cause, root, ms, measured, culprit: what some attribution could say of `golden_rows`, sums included."""


def fixed_causes() -> pa.Table:
    """`CAUSES` as `recorder.attribution.attribute` gives them, so that goldens don't move when attribution learns."""
    rids, causes, roots, ms, measured, culprits = zip(*CAUSES, strict=True)
    return pa.table(
        {
            "rid": pa.array(rids, pa.int64()),
            "attempt": pa.array([1] * len(rids), pa.int64()),
            "cause": pa.array(causes).dictionary_encode(),
            "root": pa.array(roots).dictionary_encode(),
            "ns": pa.array([value * MS for value in ms], pa.int64()),
            "measured": pa.array(measured),
            "culprit": pa.array(culprits, pa.int64()),
        }
    )
