"""The tables of a run: one declaration gives the wire format, the numpy dtype, the Arrow schema and the docs.

A row travels twice. First as a fixed-size little-endian record in a ring (`recorder.ring`), then as a row of a
Parquet part (`recorder.parts`). Both layouts are derived from the same `Table`, so they cannot drift apart.

Integers are int64; times are ns on the run's monotonic clock. `NONE` on the wire is NULL in Parquet. A coded
word is one byte on the wire and a dictionary string in Parquet. Text is UTF-8 of a fixed width, cut at a character.
"""

import struct
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from recorder import words

SCHEMA_VERSION: Final = 3
"""What runs are written in. Any older version is read: what its tables lack is NULL. Version 2 added the columns that
tell when records were lost, and the table `stalls`; version 3 which prompts begin alike."""
NONE: Final = -(2**63)
"""The wire value of an integer that is not known (yet); NULL in Parquet."""

HEADER_FIELDS: Final = (("_seq", "<u8"), ("_lost", "<u4"), ("_crc", "<u4"))
"""Every record starts with its sequence number, the drops just before it, and the CRC-32 of what follows."""


@dataclass(frozen=True)
class Column:
    """One column. `kind` is `int`, `float`, an enum of `recorder.words`, or the byte width of a text."""

    name: str
    kind: type[int] | type[float] | type[StrEnum] | int
    doc: str
    unit: str = ""
    since: int = 1
    """The schema version that brought it; new columns come last in their table."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The coded words in the order of their codes; empty where the column is not coded."""
        if isinstance(self.kind, type) and issubclass(self.kind, StrEnum):
            return tuple(member.value for member in self.kind)
        return ()

    @cached_property
    def wire(self) -> str:
        """The `struct` format of the column."""
        if isinstance(self.kind, int):
            return f"{self.kind}s"
        return "B" if self.words else {int: "q", float: "d"}[self.kind]

    @cached_property
    def numpy(self) -> str:
        """The numpy dtype of the column on the wire."""
        if isinstance(self.kind, int):
            return f"S{self.kind}"
        return "u1" if self.words else {int: "<i8", float: "<f8"}[self.kind]

    @cached_property
    def arrow(self) -> pa.DataType:
        """The Arrow type of the column at rest."""
        if isinstance(self.kind, int):
            return pa.string()
        if self.words:
            return pa.dictionary(pa.int8(), pa.string())
        return {int: pa.int64(), float: pa.float64()}[self.kind]


@dataclass(frozen=True)
class Table:
    """One table of the run. `order` is the column its parts are sorted by."""

    name: str
    row: str
    order: str
    columns: tuple[Column, ...] = field(repr=False)

    def only(self, *names: str) -> "Table":
        """The table as if it had these columns alone, for whoever reads parts and needs no others."""
        return replace(self, columns=tuple(column for column in self.columns if column.name in names))

    def at(self, version: int) -> "Table":
        """The table as a schema version had it."""
        columns = tuple(column for column in self.columns if column.since <= version)
        return self if columns == self.columns else replace(self, columns=columns)

    @cached_property
    def packer(self) -> struct.Struct:
        """Packs the columns of one row, in declared order, without the record header."""
        return struct.Struct("<" + "".join(column.wire for column in self.columns))

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """One whole record: header, then the columns."""
        return np.dtype([*HEADER_FIELDS, *((column.name, column.numpy) for column in self.columns)])

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema of the table's Parquet parts."""
        return pa.schema([(column.name, column.arrow) for column in self.columns])


def _table(name: str, row: str, order: str, *columns: Column) -> Table:
    return Table(name, row, order, columns)


def _time(name: str, doc: str) -> Column:
    return Column(name, int, doc, "ns")


def _count(name: str, doc: str) -> Column:
    return Column(name, int, doc)


def _code(name: str, kind: type[StrEnum], doc: str) -> Column:
    return Column(name, kind, doc)


REQUESTS: Final = _table(
    "requests",
    "one attempt of one request; written when it arrives (status open) and once more when it ends",
    "arrival",
    _count("rid", "number of the request, unique in the run"),
    Column("request_id", 64, "id the client gave or was given"),
    _count("attempt", "1 for the first attempt"),
    _count("retry_of", "rid this one retries"),
    Column("tenant", 32, "who is charged"),
    Column("tier", 16, "service class"),
    Column("model", 64, "model that was asked for"),
    Column("model_version", 32, "version that served"),
    _count("worker", "worker that served"),
    _time("arrival", "request fully read by the front end"),
    _time("admitted", "handed to the worker by the front end"),
    _time("queued", "taken into the worker's queue"),
    _time("first_scheduled", "start of execution of the first step that holds it"),
    _time("first_token", "end of execution of the step that gave the first token"),
    _time("last_token", "end of execution of the step that gave the last token"),
    _time("returned", "last byte handed to the client's socket"),
    _time("deadline", "instant after which the answer is worthless"),
    _count("prompt_tokens", "length of the prompt"),
    _count("cached_tokens", "prompt tokens found in the prefix cache"),
    _count("max_tokens", "most output tokens asked for"),
    _count("output_tokens", "output tokens generated"),
    _count("preemptions", "times it lost its KV blocks"),
    _count("recomputed_tokens", "tokens computed again after preemptions"),
    _code("status", words.Status, "how it stands or ended"),
    _count("http_status", "status code of the answer"),
    Column("reason", 96, "why it ended that way"),
    _count("retry_after_ms", "wait that the rejection asked for"),
    _time("device_ns", "its share of the device's time, by tokens of each step (SPEC B9)"),
    _time("event_time", "instant the client says the request is about (SPEC B6)"),
    _time("ingest_time", "instant its data became known to the engine (SPEC B6)"),
    _count("queue_depth", "requests waiting when it arrived"),
    _count("queued_tokens", "prompt tokens waiting when it arrived"),
    _count("running", "requests running when it arrived"),
    _count("kv_used", "KV blocks held when it arrived"),
    Column("prefix_of", int, "earlier request whose prompt and output its prompt begins with for longest", since=3),
    Column("prefix_tokens", int, "tokens that it begins with as that one does; 0: it begins as nobody did", since=3),
)

SPANS: Final = _table(
    "spans",
    "one stretch of one attempt",
    "start",
    _count("rid", "request"),
    _count("attempt", "attempt"),
    _code("name", words.Phase, "phase"),
    _time("start", "begin"),
    _time("end", "end"),
    _count("worker", "worker"),
    _count("first_step", "first step inside"),
    _count("last_step", "last step inside"),
)

STEPS: Final = _table(
    "steps",
    "one pass of one worker's loop, idle ones too; t_end of a pass is t_sched of the next",
    "t_sched",
    _count("step", "number of the pass on its worker, without gaps"),
    _count("worker", "worker"),
    _time("t_sched", "pass begins: messages are taken in, the plan is made"),
    _time("t_exec", "plan is made, execution begins"),
    _time("t_done", "execution has ended, tokens are known"),
    _time("t_end", "tokens handed out, pass over"),
    _code("kind", words.StepKind, "what was computed"),
    _count("num_prefill_requests", "requests in prefill or recompute"),
    _count("sum_prefill_tokens", "tokens they computed"),
    _count("sum_prefill_kv_tokens", "tokens already in their KV cache"),
    _count("num_decode_requests", "requests in decode"),
    _count("sum_decode_kv_tokens", "tokens already in their KV cache"),
    _count("waiting", "requests waiting after planning"),
    _count("waiting_tokens", "tokens they have to compute before their next output token"),
    _count("running", "requests running after planning"),
    _count("kv_free", "free KV blocks after planning"),
    _count("kv_total", "KV blocks of the worker"),
    _count("head_rid", "request at the head of the queue after planning"),
    _code("head_reason", words.Reason, "why it was not started"),
    _time("device_ns", "time the device was busy"),
    _time("predicted_ns", "prediction of the execution before it began"),
    _time("decode_only_ns", "predicted time of the same step without its prefills"),
)

SLICES: Final = _table(
    "slices",
    "one request in one step",
    "step",
    _count("step", "step"),
    _count("worker", "worker"),
    _count("rid", "request"),
    _code("role", words.Role, "what it did"),
    _count("tokens", "tokens computed"),
    _count("computed_before", "tokens in its KV cache before the step"),
    _count("cached", "tokens taken from the prefix cache"),
    _count("new_blocks", "KV blocks newly given to it"),
)

DELIVERIES: Final = _table(
    "deliveries",
    "one step's tokens on their way out",
    "t_received",
    _count("worker", "worker"),
    _count("step", "step"),
    _time("t_sent", "worker hands the tokens to the link"),
    _time("t_received", "front end has read them"),
    _time("t_written", "last of its streams is written"),
    _count("streams", "sockets written to"),
)

EVENTS: Final = _table(
    "events",
    "one change of state",
    "t",
    _time("t", "when"),
    _count("worker", "worker"),
    _count("step", "step in which it happened"),
    _count("rid", "request it happened to"),
    _code("kind", words.EventKind, "what happened"),
    _count("other_rid", "request that caused it"),
    _code("reason", words.Reason, "why"),
    _count("lost_tokens", "computed tokens thrown away"),
    _count("freed_blocks", "KV blocks given back"),
)

SAMPLES: Final = _table(
    "samples",
    "one reading of device or host",
    "t",
    _time("t", "when"),
    _code("source", words.Source, "who was measured"),
    _count("device", "device or worker number"),
    Column("name", 32, "what was measured, with its unit"),
    Column("value", float, "reading"),
)

STALLS: Final = _table(
    "stalls",
    "one stretch in which a process could not do its work, or did it for one request alone",
    "t_start",
    _time("t_start", "begin"),
    _time("t_end", "end"),
    _code("source", words.Source, "process it happened in"),
    _count("device", "worker number"),
    _code("kind", words.StallKind, "what it was"),
    _count("rid", "request whose prompt was tokenised"),
    Column("detail", 48, "generation collected, thread that tokenised, shape seen for the first time"),
)

RECORDER: Final = _table(
    "recorder",
    "the recorder's own account of one ring at one instant; `lost` > 0 marks a gap between two records",
    "t",
    _time("t", "when"),
    Column("producer", 16, "process that writes the ring"),
    Column("table_name", 16, "table of the ring"),
    _count("events", "records taken from the ring so far"),
    _count("lost", "records dropped in this gap"),
    _count("drops", "records dropped so far"),
    _count("bytes", "bytes sealed so far"),
    _time("append_ns", "mean cost of one record on the producer's side"),
    _time("durable", "instant up to which all records taken are on disk"),
    Column("lost_from", int, "first loss of this gap; unknown: any time before lost_until", "ns", since=2),
    Column("lost_until", int, "last loss of this gap; unknown: any time after lost_from", "ns", since=2),
)

TABLES: Final[dict[str, Table]] = {
    table.name: table for table in (REQUESTS, SPANS, STEPS, SLICES, DELIVERIES, EVENTS, SAMPLES, STALLS, RECORDER)
}

_CODES: Final[dict[type[StrEnum], dict[str, int]]] = {
    enum: {member.value: code for code, member in enumerate(enum)}
    for enum in (
        words.Status,
        words.Phase,
        words.StepKind,
        words.Role,
        words.Reason,
        words.EventKind,
        words.Source,
        words.StallKind,
    )
}
"""Keyed by class first: `Phase.PREFILL`, `Role.PREFILL` and `StepKind.PREFILL` are equal as strings."""


def code(word: StrEnum) -> int:
    """The byte that stands for a coded word on the wire."""
    return _CODES[type(word)][word.value]
