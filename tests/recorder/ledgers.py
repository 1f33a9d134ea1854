"""Small runs for tests: tables that are filled row by row."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from recorder.left_out import LeftOut
from recorder.losses import Damage
from recorder.producer import PartProducer
from recorder.run import RunInfo, create_run, finish
from recorder.schema import TABLES
from recorder.words import EventKind, Reason, Role, Status, StepKind

Row = dict[str, Any]


class Part(NamedTuple):
    """What one request did in a step."""

    rid: int
    role: Role
    tokens: int = 1
    computed_before: int = 0
    new_blocks: int = 0


class Ledger:
    """The tables of a run in memory. Offers what `recorder.tables.RunTables` offers to attribution and checks."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.info = RunInfo(run_id="made", state="sealed")
        self.damages: list[Damage] = []
        self.drops: dict[tuple[str, str], int] = {}
        self.left_out = LeftOut()

    def table(self, name: str) -> pa.Table:
        """One table, in the layout of the schema."""
        return pa.Table.from_pylist(self.rows[name], schema=TABLES[name].arrow)

    def add(self, table: str, /, **columns: object) -> Row:
        """One row; columns that are not given are NULL. Returns it, so that a test can damage it."""
        row = {column.name: columns.pop(column.name, None) for column in TABLES[table].columns}
        assert not columns, f"{table} has no {sorted(columns)}"
        self.rows[table].append(row)
        return row

    def request(self, rid: int, arrival: int, *, status: Status = Status.OK, **columns: object) -> Row:
        """One attempt, on worker 0 unless told otherwise."""
        columns = {"attempt": 1, "worker": 0, "request_id": f"r{rid}"} | columns
        return self.add("requests", rid=rid, arrival=arrival, status=status.value, **columns)

    def step(
        self,
        step: int,
        stamps: tuple[int, int, int, int],
        parts: Iterable[Part] = (),
        *,
        worker: int = 0,
        head: tuple[int, Reason] | None = None,
        sent: int | None = None,
        **columns: object,
    ) -> Row:
        """One pass with its slices and, where `sent` is given, its delivery. Totals are those of the slices."""
        slices = [_slice(step, worker, part) for part in parts]
        self.rows["slices"] += slices
        if sent is not None:
            self.add("deliveries", worker=worker, step=step, t_sent=sent, t_received=sent, t_written=sent, streams=1)
        names = ("t_sched", "t_exec", "t_done", "t_end")
        rid, reason = head or (None, Reason.NONE)
        columns = _totals(slices) | {"head_rid": rid, "head_reason": reason.value} | columns
        return self.add("steps", step=step, worker=worker, **dict(zip(names, stamps, strict=True)), **columns)

    def event(self, t: int, step: int, rid: int, kind: EventKind, *, worker: int = 0, **columns: object) -> Row:
        """One change of state of a request."""
        columns = {"reason": Reason.NONE.value, "lost_tokens": 0, "freed_blocks": 0} | columns
        return self.add("events", t=t, step=step, rid=rid, kind=kind.value, worker=worker, **columns)

    def write(self, folder: Path) -> Path:
        """A sealed run on disk with these rows; returns its folder."""
        run = create_run(folder, RunInfo(run_id="made"))
        producer = PartProducer(run, "test", TABLES)
        for name, rows in self.rows.items():
            for row in rows:
                producer.row(name, **{key: _word(name, key, value) for key, value in row.items()})
        producer.close()
        finish(run)
        return run


def _word(table: str, column: str, value: object) -> object:
    kind = next(each.kind for each in TABLES[table].columns if each.name == column)
    return kind(value) if isinstance(kind, type) and isinstance(value, str) else value


def _slice(step: int, worker: int, part: Part) -> Row:
    return {"step": step, "worker": worker, "cached": 0} | part._asdict() | {"role": part.role.value}


def _totals(slices: list[Row]) -> Row:
    decodes = [part for part in slices if part["role"] == Role.DECODE]
    prefills = [part for part in slices if part["role"] != Role.DECODE]
    kinds = {(False, False): StepKind.IDLE, (True, False): StepKind.PREFILL, (False, True): StepKind.DECODE}
    return {
        "kind": kinds.get((bool(prefills), bool(decodes)), StepKind.MIXED).value,
        "num_prefill_requests": len(prefills),
        "sum_prefill_tokens": sum(part["tokens"] for part in prefills),
        "sum_prefill_kv_tokens": sum(part["computed_before"] for part in prefills),
        "num_decode_requests": len(decodes),
        "sum_decode_kv_tokens": sum(part["computed_before"] for part in decodes),
        "kv_free": 0,
        "kv_total": 0,
        "waiting": 0,
        "waiting_tokens": 0,
        "running": 0,
    }
