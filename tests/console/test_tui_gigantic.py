"""A run so large that what takes long is worked out once and kept: every screen shows it, whole and under a filter."""

from pathlib import Path

import duckdb
import pytest

from console.app import Tailtrace
from console.book import Book
from console.filter import EVERYTHING, Filter
from console.filter_language import parse_filter
from console.lanes import MANY
from console.report import report
from console.screentable import SCREENS
from console.session import Session
from tests.bench.generate import generate
from tests.console.screens import screen_text, settle

REQUESTS = 230_000
"""More lanes than are held with their phases, more slices than are attributed at each look."""
SLOW = parse_filter("e2e>300ms")
UNANSWERED = ("working out", "reading the", "comparing …", "adding up", "counting …", "looking for")
BARE = """SELECT count(*), quantile_disc(first_token - arrival, 0.99), quantile_disc(returned - arrival, [0.5, 0.99])
FROM read_parquet('{run}/requests/*.parquet') WHERE status = 'ok' AND {holds}"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = generate(tmp_path_factory.mktemp("gigantic"), REQUESTS)
    with Session(found) as session:
        session.load_causes()
    assert (found / "kept.duckdb").exists()
    assert REQUESTS > MANY
    return found


@pytest.mark.parametrize(("only", "holds"), [(EVERYTHING, "true"), (SLOW, "returned - arrival > 300_000_000")], ids=str)
def test_its_numbers_are_those_of_its_parquet_files(run: Path, only: Filter, holds: str) -> None:
    ((ok, ttft, (middle, slow)),) = duckdb.connect().execute(BARE.format(run=run, holds=holds)).fetchall()
    with Session(run) as session:
        found = report(session, only)
    e2e = found["e2e_ms"]
    assert (found["requests"]["ok"], found["ttft_ms"]["p99"]) == (ok, ttft / 1e6)
    assert (e2e["p50"], e2e["p99"]) == (middle / 1e6, slow / 1e6)
    assert found["closure"] is not None


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
async def test_every_screen_shows_it(run: Path, size: tuple[int, int]) -> None:
    app = Tailtrace([Book(run)], "overview")
    async with app.run_test(size=size) as pilot:
        for only in (EVERYTHING, SLOW):
            app.look_at(only)
            for place in SCREENS:
                await app.action_show(place.name)
                await settle(pilot)
                seen = screen_text(app)
                assert not any(words in seen for words in UNANSWERED), (place.name, seen)
                assert app.is_running
                if only:
                    assert "e2e>300ms" in seen, (place.name, seen)
