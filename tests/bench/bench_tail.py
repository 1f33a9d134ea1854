"""From a record to the line of `tailtrace tail --json`, at 10,000 records a second, beside a plain WebSocket echo.

`python -m tests.bench.bench_tail [--seconds N]` prints one JSON object; delays in ms. A process writes rings as engines
do (slices, spans, two rows a request; 100 requests end each second), a recorder process drains and serves them, a
`tailtrace tail` prints them, and this process reads its lines: the delay of a request goes from the stamp `returned`,
taken before its last row is packed, to the arrival of its line. The echo sends the same lines at the same rate.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from recorder.producer import RingProducer
from recorder.run import RunInfo, create_run
from recorder.words import Phase, Status
from tests.recorder.tails import tail_recorder

AIM_MS = 250
REQUESTS_A_SECOND = 100
SLICES_A_REQUEST = 93
SPANS = (Phase.INGRESS, Phase.QUEUE, Phase.PREFILL, Phase.DECODE, Phase.RETURN)
RECORDS_A_REQUEST = SLICES_A_REQUEST + len(SPANS) + 2


def write(run: Path, seconds: float) -> None:
    """Requests at an even rate. Sleeping to the next one is what the load is, not a wait for something to come true."""
    front = RingProducer(run, "frontend", ["requests", "spans"])
    worker = RingProducer(run, "worker0", ["slices"])
    append = worker.appender("slices")
    began = time.monotonic_ns()
    for rid in range(int(seconds * REQUESTS_A_SECOND)):
        time.sleep(max(began + rid * 10**9 // REQUESTS_A_SECOND - time.monotonic_ns(), 0) / 1e9)
        for number in range(SLICES_A_REQUEST):
            append(rid, 0, rid, 1, 1, number, 0, 0)
        _end_request(front, rid)
    front.close()
    worker.close()


def _end_request(front: RingProducer, rid: int) -> None:
    returned = time.monotonic_ns()
    arrival = returned - len(SPANS) * 1000
    known = {"rid": rid, "attempt": 1, "request_id": f"request-{rid}", "arrival": arrival}
    front.row("requests", **known, status=Status.OPEN)
    for place, name in enumerate(SPANS):
        start = arrival + place * 1000
        front.row("spans", rid=rid, attempt=1, name=name, start=start, end=start + 1000, worker=0)
    front.row("requests", **known, status=Status.OK, first_token=arrival + 3000, returned=returned)


def tail_delays(seconds: float) -> tuple[list[float], list[bytes]]:
    """Milliseconds from record to line, and the lines."""
    with tempfile.TemporaryDirectory() as folder:
        run = create_run(Path(folder), RunInfo(run_id="bench"))
        with tail_recorder(run) as (recorder, let_go):
            command = [sys.executable, "-m", "console.cli", "tail", str(run), "--json"]
            tail = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert tail.stdout and tail.stderr
            assert b"following" in tail.stderr.readline()
            writer = subprocess.Popen([sys.executable, "-m", __spec__.name, "--write", str(run), str(seconds)])
            found = _read(tail.stdout, int(seconds * REQUESTS_A_SECOND))
            assert writer.wait() == 0
            let_go()
            assert recorder.wait() == 0
            assert tail.wait() == 0
    return [(at - json.loads(line)["returned"]) / 1e6 for at, line in found], [line for _, line in found]


def _read(stream: IO[bytes], count: int) -> list[tuple[int, bytes]]:
    found = []
    for line in stream:
        found.append((time.monotonic_ns(), line))
        if len(found) == count:
            break
    return found


async def echo_delays(lines: list[bytes]) -> list[float]:
    """Milliseconds of one round trip of each line through a WebSocket server in another process, at the same rate."""
    server = subprocess.Popen([sys.executable, "-m", __spec__.name, "--echo"], stdout=subprocess.PIPE)
    assert server.stdout
    port = int(server.stdout.readline())
    delays = []
    try:
        async with connect(f"ws://127.0.0.1:{port}", compression=None, proxy=None) as connection:
            began = time.monotonic_ns()
            for place, line in enumerate(lines):
                await asyncio.sleep(max(began + place * 10**9 // REQUESTS_A_SECOND - time.monotonic_ns(), 0) / 1e9)
                sent = time.monotonic_ns()
                await connection.send(line)
                await connection.recv()
                delays.append((time.monotonic_ns() - sent) / 1e6)
    finally:
        server.kill()
        server.wait()
    return delays


async def _echo() -> None:
    async def answer(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async with serve(answer, "127.0.0.1", 0, compression=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


def summary(delays: list[float]) -> dict[str, float]:
    """Median and 99th percentile."""
    cuts = statistics.quantiles(delays, n=100)
    return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2), "max_ms": round(max(delays), 2)}


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        return write(Path(options.write[0]), float(options.write[1]))
    if options.echo:
        return asyncio.run(_echo())
    delays, lines = tail_delays(options.seconds)
    tail, echo = summary(delays), summary(asyncio.run(echo_delays(lines)))
    document = {
        "records_per_s": REQUESTS_A_SECOND * RECORDS_A_REQUEST,
        "lines": len(lines),
        "line_bytes": round(statistics.mean(map(len, lines))),
        "tail": tail,
        "echo": echo,
        "ratio_p50": round(tail["p50_ms"] / echo["p50_ms"], 1),
        "ratio_p99": round(tail["p99_ms"] / echo["p99_ms"], 1),
        "aim_p99_ms": AIM_MS,
        "within_aim": tail["p99_ms"] <= AIM_MS,
        "load_average": os.getloadavg()[0],
    }
    print(json.dumps(document, indent=2))
    return None


if __name__ == "__main__":
    main()
