"""A burst of a million records/s for five seconds: how much is lost, and is all of it counted?

`python -m tests.bench.bench_burst [--rate N] [--seconds N] [--producers N] [--ring-mb N]` prints one JSON object. The
baseline is OpenTelemetry's BatchSpanProcessor as it comes, offered spans as fast as one thread makes them, with an
exporter that costs nothing.
"""

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from recorder.producer import RingProducer
from recorder.run import RunInfo, create_run
from recorder.tables import open_tables
from tests.recorder.processes import recorder_process

CHUNK = 1000


def produce(run: Path, name: str, rate: float, seconds: float, ring_mb: float) -> None:
    """Append at a rate, in chunks, once stdin says so; tells how many were tried and how long it took."""
    producer = RingProducer(run, name, ["slices"], ring_mb)
    append = producer.appender("slices")
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    number = 0
    while number < rate * seconds:
        for rid in range(number, number + CHUNK):
            append(rid, 0, rid, 1, 16, rid, 0, 1)
        number += CHUNK
        ahead = number / rate - (time.perf_counter() - began)
        if ahead > 0:
            time.sleep(ahead)
    took = time.perf_counter() - began
    print(json.dumps({"tried": number, "seconds": took, "drops": producer.drops}), flush=True)


def burst(args: argparse.Namespace) -> dict[str, object]:
    """All producers at once, a recorder process beside them; then what is in the closed run."""
    with tempfile.TemporaryDirectory() as folder:
        run = create_run(Path(folder), RunInfo(run_id="burst"))
        with recorder_process(run) as (recorder, let_go):
            told = _producers(run, args)
            let_go()
            recorder.wait()
        tables = open_tables(run)
        recorded = tables.table("slices").num_rows if tables.table("steps").num_rows else _rows(run)
        drops = sum(count for (_, table), count in tables.drops.items() if table == "slices")
        marked = sum(gap.lost for gap in tables.gaps if gap.table == "slices")
    tried = int(sum(one["tried"] for one in told))
    return {
        "records_per_s": round(sum(one["tried"] / one["seconds"] for one in told)),
        "tried": tried,
        "lost": drops,
        "lost_share": round(drops / tried, 4),
        "all_losses_counted": tried == recorded + drops == recorded + marked,
    }


def _rows(run: Path) -> int:
    """Slices in the run; without steps a reader shows none of them."""
    return sum(int(path.stem.split("-")[2]) - int(path.stem.split("-")[1]) for path in (run / "slices").iterdir())


def _producers(run: Path, args: argparse.Namespace) -> list[dict[str, float]]:
    rate = args.rate / args.producers
    command = [sys.executable, "-m", "tests.bench.bench_burst", "--rate", str(rate), "--seconds", str(args.seconds)]
    started = [
        subprocess.Popen(
            [*command, "--ring-mb", str(args.ring_mb), "--produce", str(run), f"worker{number}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(args.producers)
    ]  # fmt: skip
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    return [json.loads(process.communicate("go\n")[0]) for process in _go(started)]


def _go(started: Sequence[subprocess.Popen[str]]) -> Sequence[subprocess.Popen[str]]:
    """All of them at the same instant: `communicate` would wait for the first before it starts the second."""
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return started


class CountingExporter(SpanExporter):
    """Takes every batch at once."""

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class Lines(logging.Handler):
    """Counts what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def opentelemetry(seconds: float) -> dict[str, object]:
    """Spans as fast as they come, with eight attributes each."""
    lines, exporter, provider = Lines(), CountingExporter(), TracerProvider()
    logging.getLogger("opentelemetry").addHandler(lines)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("bench")
    attributes = dict.fromkeys("abcdefgh", 1)
    began, tried = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        with tracer.start_as_current_span("slice", attributes=attributes):
            tried += 1
    took = time.perf_counter() - began
    provider.shutdown()
    return {
        "spans_per_s": round(tried / took),
        "tried": tried,
        "lost": tried - exporter.spans,
        "lost_share": round(1 - exporter.spans / tried, 4),
        "log_lines": lines.count,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=1e6, help="records/s of all producers together")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--producers", type=int, default=4)
    parser.add_argument("--ring-mb", type=float, default=16)
    parser.add_argument("--produce", nargs=2, metavar=("RUN", "NAME"), help="be one of the producers")
    args = parser.parse_args()
    if args.produce:
        produce(Path(args.produce[0]), args.produce[1], args.rate, args.seconds, args.ring_mb)
        return
    ours, theirs = burst(args), opentelemetry(args.seconds)
    faster = float(str(ours["records_per_s"])) / float(str(theirs["spans_per_s"]))
    print(json.dumps({"tailtrace": ours, "opentelemetry": theirs, "ratio": round(faster, 1)}, indent=2))


if __name__ == "__main__":
    main()
