"""Cost of one record on the hot path, beside one OpenTelemetry span that carries the same values.

`python -m tests.bench.bench_record` prints one JSON object; times are ns, medians over alternating rounds, and p50 and
p99.9 of single calls.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from recorder.ring import RingReader, RingWriter
from recorder.schema import SLICES, STEPS, Table

ROUNDS = 15
RECORDS = 20_000
SPANS = 2_000
CALLS = 20_000
RING_BYTES = 4 * 2**20
AIM = 1 / 40


class RecordBench:
    """One ring; what a round packed is given free afterwards, as the recorder process would."""

    def __init__(self, folder: Path, table: Table) -> None:
        path = folder / f"bench.{table.name}.ring"
        self.writer = RingWriter(path, table, RING_BYTES)
        self.reader = RingReader(path, table, sealing=True)
        self.row = (1,) * len(table.columns)

    def slice_ns(self) -> float:
        """Mean ns of one append, called as a worker calls it."""
        append = self.writer.append
        began = time.perf_counter_ns()
        for number in range(RECORDS):
            append(number, 0, number, 1, 16, number, 0, 1)
        return self._done(began)

    def row_ns(self) -> float:
        """Mean ns of one append of the table's whole width."""
        append, row = self.writer.append, self.row
        began = time.perf_counter_ns()
        for _ in range(RECORDS):
            append(*row)
        return self._done(began)

    def _done(self, began: int) -> float:
        took = time.perf_counter_ns() - began
        self.reader.seal(self.reader.read_next(self.reader.sealed).end)
        return took / RECORDS


class SpanBench:
    """Spans as the SDK documents them, with as many attributes; default batching, an exporter that only keeps."""

    def __init__(self, table: Table) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(BatchSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("bench")
        self.attributes = {column.name: 1 for column in table.columns}

    def round_ns(self) -> float:
        """Mean ns of one span; exporting happens after the clock has stopped."""
        tracer, attributes = self.tracer, self.attributes
        began = time.perf_counter_ns()
        for _ in range(SPANS):
            with tracer.start_as_current_span("slice", attributes=attributes):
                pass
        took = (time.perf_counter_ns() - began) / SPANS
        self.provider.force_flush()
        self.exporter.clear()
        return took


class Each:
    """What every single call takes: the clock is read twice a call, and its own cost is taken off."""

    def __init__(self) -> None:
        self.clock_ns = statistics.median(self._times(lambda: None, CALLS))

    def percentiles(self, call: Callable[[], object], calls: int) -> dict[str, int]:
        """p50 and p99.9 in ns over so many calls."""
        times = sorted(self._times(call, calls))
        at = {"p50": calls // 2, "p99.9": calls * 999 // 1000}
        return {name: round(max(times[index] - self.clock_ns, 0)) for name, index in at.items()}

    @staticmethod
    def _times(call: Callable[[], object], calls: int) -> list[int]:
        clock, times = time.perf_counter_ns, []
        for _ in range(calls):
            began = clock()
            call()
            times.append(clock() - began)
        return times


def one_by_one(slices: RecordBench, span: SpanBench) -> dict[str, dict[str, int]]:
    """The spread of single calls; nobody drains or exports meanwhile."""
    each, append = Each(), slices.writer.append
    records = each.percentiles(lambda: append(7, 0, 7, 1, 16, 7, 0, 1), CALLS)

    def one_span() -> None:
        with span.tracer.start_as_current_span("slice", attributes=span.attributes):
            pass

    return {"slice_record": records, "otel_span": each.percentiles(one_span, CALLS)}


def main() -> None:
    """Alternate the contestants, so that whatever else the machine does hits all alike."""
    with tempfile.TemporaryDirectory() as folder:
        slices, steps, span = RecordBench(Path(folder), SLICES), RecordBench(Path(folder), STEPS), SpanBench(SLICES)
        rounds = [(slices.slice_ns(), steps.row_ns(), span.round_ns()) for _ in range(ROUNDS)]
        single = one_by_one(slices, span)
    slice_ns, step_ns, span_ns = (statistics.median(values) for values in zip(*rounds, strict=True))
    result = {
        "slice_record_ns": round(slice_ns),
        "step_record_ns": round(step_ns),
        "otel_span_ns": round(span_ns),
        "ratio": round(slice_ns / span_ns, 4),
        "aim": AIM,
        "one_by_one_ns": single,
        "ratio_p99.9": round(single["slice_record"]["p99.9"] / single["otel_span"]["p99.9"], 4),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
