"""How long after a kill does a reader answer? On a run of 10 million spans, a tenth of a second of them still in rings.

`python -m tests.bench.bench_reopen [--requests N] [--run RUN]` prints one JSON object; seconds, medians. `process` is
the whole way: a new process, its imports, opening the run, one answer. `ratio` sets the opening and the answer beside
DuckDB alone counting the rows of the same files. The aim is an answer in under a second.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recorder.parts import all_parts
from recorder.producer import RingProducer
from recorder.run import run_state
from recorder.schema import TABLES
from tests.bench.generate import generate

AIM_S = 1.0
REQUESTS = 1_670_000
IN_RINGS = 20_000
READ = """
import sys, time
from pathlib import Path
began = time.perf_counter()
from console.session import Session
imported = time.perf_counter()
with Session(Path(sys.argv[1])) as session:
    answer = session.ask("request", rid=int(sys.argv[2]), attempt=1)
    assert answer.num_rows == 1
    print(imported - began, time.perf_counter() - imported)
"""
COUNT = """
import sys, time, duckdb
db = duckdb.connect(config={"threads": 2})
began = time.perf_counter()
for name in sys.argv[2:]:
    db.execute(f"SELECT count(*) FROM '{sys.argv[1]}/{name}/*.parquet'").fetchall()
print(0, time.perf_counter() - began)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = generate(Path(folder), args.requests, sealed=False)
        fill_rings(run)
        assert run_state(run) == "killed"
        rows = {name: sum(part.last - part.first for part in all_parts(run, name)) for name in TABLES}
        names = [name for name, count in rows.items() if count]
        tries = [(timed(READ, run, str(args.requests // 2)), timed(COUNT, run, *names)) for _ in range(args.times)]
    process, answer, plain = (
        statistics.median(column) for column in zip(*((read[0], read[2], bare[2]) for read, bare in tries), strict=True)
    )
    result = {
        "spans": rows["spans"],
        "process_s": round(process, 3),
        "open_and_answer_s": round(answer, 3),
        "duckdb_count_s": round(plain, 3),
        "ratio": round(answer / plain, 2),
        "aim_s": AIM_S,
        "aim_met": process < AIM_S,
    }
    print(json.dumps(result, indent=2))


def fill_rings(run: Path) -> None:
    """What a killed worker leaves: records that nobody sealed."""
    producer = RingProducer(run, "worker0", ["slices"], ring_mb=16)
    append = producer.appender("slices")
    for number in range(IN_RINGS):
        append(10**9 + number, 0, number, 1, 1, number, 0, 0)
    producer.close()


def timed(program: str, *arguments: str | Path) -> tuple[float, float, float]:
    """Seconds of the whole process, of its imports, and of its work."""
    began = time.perf_counter()
    told = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], check=True, capture_output=True, text=True
    ).stdout
    imports, work = map(float, told.split())
    return time.perf_counter() - began, imports, work


if __name__ == "__main__":
    main()
