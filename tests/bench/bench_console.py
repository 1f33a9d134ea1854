"""How fast is the console on a large run? `python -m tests.bench.bench_console RUN [--size 160x48]`.

RUN is one of `tests.bench.generate` (1,500,000 requests are the measure: nine million spans). Each figure stands beside
its aim and, where there is one, beside the bare DuckDB query over the run's Parquet files that answers the same
question, on as many threads. Wall-clock ms, the best of a few; `cpu` is the processor time of the same call, for
whoever measures on a busy machine. The first look has the causes worked out, which is told apart: later ones find them.
"""

import argparse
import asyncio
import fcntl
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from console.answers import Answers
from console.app import Tailtrace
from console.book import Book
from console.filter import Filter
from console.filter_language import parse_filter
from console.heat import heat_of
from console.lanes import load_lanes
from console.replay import Replay
from console.report import numbers
from console.screentable import SCREENS
from console.session import Session, question
from console.widgets.chart import chart
from recorder.producer import PartProducer
from recorder.run import hold_lock, load_info, lock_path, save_info
from tests.bench.bench_open import FRAME, NUMBERS, open_once
from tests.console.screens import settle

TIMES: Final = 3
THREADS: Final = 2
FILTERS: Final = ("e2e>500ms", "prompt>=100", "alive:100s..110s", "phase:decode>250ms", "cause:PREFILL>20%")
BARE: Final = {
    "percentiles": """SELECT quantile_disc(first_token - arrival, [0.5, 0.95, 0.99]), quantile_disc(returned - arrival,
        [0.5, 0.95, 0.99]) FROM {requests} WHERE status = 'ok'""",
    "phases": """SELECT name, sum("end" - start), quantile_disc("end" - start, [0.5, 0.95, 0.99])
        FROM {spans} GROUP BY name""",
    "filter": "SELECT count(*) FROM {requests} WHERE returned - arrival > 500_000_000",
    "heat map": """SELECT count(*) FROM {requests}
        GROUP BY (arrival // 20_000_000_000), (returned - arrival) // 100_000_000""",
    "lanes": """SELECT arrival, queued, first_scheduled, first_token, last_token, returned
        FROM {requests} ORDER BY arrival""",
    "request": "SELECT * FROM {spans} WHERE rid = 750_000",
    "window": "SELECT count(*) FROM {requests} WHERE arrival < 110_000_000_000 AND returned >= 100_000_000_000",
}


class Table:
    """Prints a figure a line, as it comes."""

    def __init__(self, run: Path) -> None:
        self._bare = duckdb.connect(config={"threads": THREADS})
        self._tables = {name: f"read_parquet('{run}/{name}/*.parquet')" for name in ("requests", "spans")}
        print(f"{'':44} {'ms':>8} {'cpu':>8} {'aim':>8} {'bare DuckDB':>12}")

    def row(self, what: str, ms: float, cpu: float | None = None, aim: float | None = None, bare: str = "") -> None:
        """One figure."""
        told = [f"{value:,.1f}" if value is not None else "" for value in (ms, cpu, aim)]
        beside = f"{self._asked(BARE[bare]):,.1f}" if bare else ""
        missed = "  MISSED" if aim is not None and ms > aim else ""
        print(f"{what:44} {told[0]:>8} {told[1]:>8} {told[2]:>8} {beside:>12}{missed}", flush=True)

    def best(self, what: str, call: Callable[[], object], aim: float | None = None, bare: str = "") -> None:
        """The best of a few calls."""
        took = [timed(call) for _ in range(TIMES)]
        self.row(what, min(wall for wall, _ in took), min(cpu for _, cpu in took), aim, bare)

    def _asked(self, sql: str) -> float:
        asked = sql.format(**self._tables)
        return min(timed(lambda: self._bare.execute(asked).fetchall())[0] for _ in range(TIMES))


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor time, ms."""
    cpu, began = time.process_time(), time.monotonic()
    call()
    return (time.monotonic() - began) * 1e3, (time.process_time() - cpu) * 1e3


def questions(table: Table, run: Path) -> None:
    """What screens ask, without a screen."""
    with Session(run) as session:
        wall, cpu = timed(session.load_causes)
        table.row("causes, once (in a process of its own)", wall, cpu)
    table.best("open a session", lambda: Session(run).close())
    of_request = question("request_phases")
    with Session(run) as session:
        table.best("numbers of the report", partial(numbers_anew, session, Filter()), None, "percentiles")
        table.best("phases", lambda: session.query(question("phases")), None, "phases")
        table.best("causes", lambda: session.query(question("causes")))
        for text in FILTERS:
            only = parse_filter(text)
            table.best(f"pick {text}", partial(picked_anew, session, only), 300, "filter")
            table.best(f"numbers under {text}", partial(numbers_anew, session, only), 300)
        table.best("phases of a request", lambda: session.query(of_request, rid=750_000, attempt=1), None, "request")


def numbers_anew(session: Session, only: Filter) -> object:
    """On a cursor of their own, as if nobody had asked before."""
    session.answers = Answers()
    session._places.clear()
    with session.connect() as cursor:
        return numbers(session, only, cursor)


def picked_anew(session: Session, only: Filter) -> object:
    """As if nobody had asked before."""
    session._places.clear()
    return session.places(only)


def pictures(table: Table, run: Path, width: int, height: int) -> None:
    """Frames and tiles: lines from lanes in memory."""
    with Session(run) as session, session.connect() as cursor:
        wall, cpu = timed(lambda: load_lanes(session, cursor))
        table.row("read the lanes, once", wall, cpu, None, "lanes")
        lanes = load_lanes(session, cursor)
        only = parse_filter("prompt>=100")
        table.best("lanes under a filter", lambda: lanes.under_filter(session, only, cursor), 300)
    replay = Replay.of(lanes, None)
    for what, window in (
        ("everything", lanes.window),
        ("a quarter", lanes.window.zoom(1, 4, lanes.window.high // 2)),
        ("ten seconds", lanes.window.around(10**11, 11 * 10**10)),
    ):
        table.best(f"heat map, {what}", partial(heat_of, lanes, "e2e", window, height, width), 100, "heat map")
        replay.window = window
        for place in range(1, 4):
            replay.seek(window.start + window.span * place // 4, 0)
            draw = partial(frame, replay, width, height)
            table.best(f"frame while playing, {what}, {place}/4", draw, 16, "window" if place == 1 else "")


def frame(replay: Replay, width: int, height: int) -> object:
    """One frame, as playing draws it."""
    return chart(replay.lanes, replay.frame(0, height, follow=True), width, height)


async def screens(table: Table, run: Path, size: tuple[int, int]) -> None:
    """From the key to the last answer on screen, and what it takes to hold all that."""
    app = Tailtrace([Book(run)], "overview")
    async with app.run_test(size=size) as pilot:
        async with told(table, "overview, to the last answer", None):
            await settle(pilot)
        for text in ("", *FILTERS[:3]):
            async with told(table, f"overview under {text or 'no filter again'}", 300):
                app.look_at(parse_filter(text))
                await settle(pilot)
        app.look_at(Filter())
        await settle(pilot)
        for turn in ("first", "again"):
            for place in SCREENS:
                async with told(table, f"{place.name}, {turn}", None if turn == "first" else 300):
                    await app.action_show(place.name)
                    await settle(pilot)
    app.leave(10)


class told:  # noqa: N801  # reads as a word
    """Tells how long its block took."""

    def __init__(self, table: Table, what: str, aim: float | None) -> None:
        self._table, self._what, self._aim = table, what, aim

    async def __aenter__(self) -> None:
        self._began, self._cpu = time.monotonic(), time.process_time()

    async def __aexit__(self, *_: object) -> None:
        wall, cpu = time.monotonic() - self._began, time.process_time() - self._cpu
        self._table.row(self._what, wall * 1e3, cpu * 1e3, self._aim)


@contextmanager
def memory(table: Table, what: str) -> Iterator[None]:
    """Tells how much memory the process had at most, MB."""
    yield
    table.row(what, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, None, 1000)


def followed(table: Table, run: Path, folder: Path) -> None:
    """The same run as one that is recorded: the first look, and looks when a little has come since."""
    copy = folder / run.name
    shutil.copytree(run, copy, copy_function=os.link, ignore=shutil.ignore_patterns("kept.duckdb", "run.json"))
    info = load_info(run)
    info.state = "recording"
    save_info(copy, info)
    with hold_lock(lock_path(copy), fcntl.LOCK_SH):
        cpu, began = time.process_time(), time.monotonic()
        session = Session(copy)
        wall, cpu = (time.monotonic() - began) * 1e3, (time.process_time() - cpu) * 1e3
        table.row("live: the first look", wall, cpu)
        table.row("live: its causes", *timed(session.load_causes))
        last = session.query("SELECT max(rid) AS rid, max(returned) AS t FROM requests").to_pylist()[0]
        producer = PartProducer(copy, "later", ["requests", "spans"])
        for number in range(1, 201):
            arrival = last["t"] + number * 5_000_000
            stamps = {"arrival": arrival, "admitted": arrival + 1, "returned": arrival + 900_000}
            producer.row("requests", rid=last["rid"] + number, attempt=1, status="ok", **stamps)
            producer.row("spans", rid=last["rid"] + number, attempt=1, name="ingress", start=arrival, end=arrival + 1)
        producer.close()
        table.row("live: a look when 200 requests have come", *timed(session.refresh))
        with session.connect() as cursor:
            table.row("live: the lanes then", *timed(partial(load_lanes, session, cursor)))
        table.row("live: their causes", *timed(session.load_causes))
        table.best("live: a look when nothing has come", session.refresh)
        session.close()


def in_a_process(work: Callable[[], None]) -> None:
    """So that what one part holds is not counted in another."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a part of the benchmark failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--size", default="160x48", help="columns x lines (default: %(default)s)")
    args = parser.parse_args()
    width, height = map(int, args.size.split("x"))
    in_a_process(lambda: questions(Table(args.run), args.run))
    table = Table(args.run)
    for what, seconds in zip((FRAME, NUMBERS), min(open_once(args.run) for _ in range(TIMES)), strict=True):
        table.row(f"first screen: {what.decode()}", seconds * 1e3, None, 1000)
    in_a_process(lambda: pictures(Table(args.run), args.run, width, height))

    def look() -> None:
        table = Table(args.run)
        with memory(table, "memory of the console, MB"):
            asyncio.run(screens(table, args.run, (width, height)))

    with tempfile.TemporaryDirectory(dir=args.run.parent) as folder:
        in_a_process(lambda: followed(Table(args.run), args.run, Path(folder)))
    in_a_process(look)


if __name__ == "__main__":
    main()
