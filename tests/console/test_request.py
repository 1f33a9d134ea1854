"""The life of one request: found by its id or its number, told with culprits, and told also where little is known."""

import json
from pathlib import Path

import pytest

from console.cli import main
from console.request import RequestNotFoundError, family_of, life_of, lives
from console.session import Session
from console.text.request import request_lines
from console.widgets.ink import width_of
from recorder.errors import UserError
from recorder.words import Status
from tests.console.runs import request, write_run
from tests.console.test_report import ODD_RUNS, check_golden_text, text
from tests.engine.runs import make_demo_run


@pytest.mark.parametrize("wanted", ["req-2", "2", "req:2"])
def test_a_request_is_found_by_its_id_or_its_number(golden: Session, wanted: str) -> None:
    assert [life["request"]["request_id"] for life in lives(golden, wanted)] == ["req-2"]


def test_an_id_that_looks_like_a_number_is_an_id_first(tmp_path: Path) -> None:
    rows = {"requests": [request(1, 0, request_id="2"), request(2, 1, request_id="other")]}
    with Session(write_run(tmp_path, rows)) as session:
        assert [life["request"]["rid"] for life in lives(session, "2")] == [1]
        assert [life["request"]["rid"] for life in lives(session, "req:2")] == [2]


def test_every_attempt_is_told_oldest_first(tmp_path: Path) -> None:
    first = request(1, 0, Status.FAILED, request_id="again")
    second = request(2, 4, request_id="again") | {"attempt": 2, "retry_of": 1}
    with Session(write_run(tmp_path, {"requests": [second, first]})) as session:
        assert [life["request"]["rid"] for life in lives(session, "again")] == [1, 2]


def test_an_unknown_request_gets_a_hint(golden: Session, tmp_path: Path) -> None:
    with pytest.raises(RequestNotFoundError, match="did you mean req-1"):
        lives(golden, "re-1")
    with pytest.raises(RequestNotFoundError, match="its ids are like req-1"):
        lives(golden, "999")
    with Session(write_run(tmp_path, {}, "bare")) as bare, pytest.raises(RequestNotFoundError, match="none at all"):
        lives(bare, "1")
    nameless = {"requests": [request(1, 0, request_id=None)]}
    with (
        Session(write_run(tmp_path, nameless, "nameless")) as found,
        pytest.raises(UserError, match="req:NUMBER names"),
    ):
        lives(found, "anybody")


def test_a_cursor_tells_of_one_request_after_the_other(golden: Session) -> None:
    """What was looked at for the first one is not in the way of the second."""
    with golden.connect() as cursor:
        told = [life_of(golden, rid, 1, cursor) for rid in (1, 2, 1)]
        passes = golden.query("SELECT count(*) AS n FROM steps", cursor=cursor)["n"].to_pylist()
    assert told[0] == told[2] == life_of(golden, 1, 1)
    assert told[1] == life_of(golden, 2, 1)
    assert passes == golden.query("SELECT count(*) AS n FROM steps")["n"].to_pylist()


def test_a_family_is_followed_both_ways_through_its_retries(tmp_path: Path) -> None:
    chain = [request(rid, rid, request_id=f"try-{rid}") | {"retry_of": rid - 1 or None} for rid in range(1, 5)]
    others = [request(5, 5, request_id="try-2"), request(6, 6, request_id=""), request(7, 7, request_id="")]
    with Session(write_run(tmp_path, {"requests": [*chain, *others]})) as session:
        families = {rid: [row["rid"] for row in family_of(session, life_of(session, rid, 1))] for rid in range(1, 8)}
    assert families == {1: [1, 2, 3, 4], 2: [1, 2, 3, 4, 5], 3: [1, 2, 3, 4], 4: [1, 2, 3, 4], 5: [1, 2, 3, 4, 5],
                        6: [6], 7: [7]}  # fmt: skip


def test_causes_name_their_culprits_and_roots(golden: Session) -> None:
    """SPEC F2: the proximate cause, the root, and the requests that caused it."""
    (life,) = lives(golden, "req-2")
    blamed = {(row["cause"], row["culprit_id"]): row for row in life["causes"] if row["culprit"] is not None}
    assert blamed["QUEUE/BEHIND_FIFO", "req-1"]["ns"] == 8_000_000
    assert blamed["QUEUE/BEHIND_FIFO", "[bold]open[/bold]"]["root"] == "KV_BLOCKS"
    assert "by req-1 req:1  root KV_BLOCKS" in text(request_lines(life, 100))


def test_causes_of_a_request_sum_to_its_end_to_end_time(tmp_path: Path) -> None:
    """SPEC F1, through the whole way from a simulated run to the printed page."""
    make_demo_run(tmp_path / "run", "continuous")
    with Session(tmp_path / "run") as session:
        ids = session.query("SELECT request_id FROM requests WHERE status = 'ok'")["request_id"].to_pylist()
        for wanted in ids:
            (life,) = lives(session, wanted)
            assert sum(row["ns"] for row in life["causes"]) == life["request"]["e2e_ns"]
            assert sum(row["ns"] for row in life["phases"]) == life["request"]["e2e_ns"]
            assert "sum = E2E" in text(request_lines(life, 80))


def test_the_page(golden: Session) -> None:
    page = "".join(text(request_lines(life, 80)) for life in (*lives(golden, "req-1"), *lives(golden, "req-2")))
    check_golden_text("request", page)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_asked(golden: Session, width: int) -> None:
    for wanted in range(1, 8):
        for life in lives(golden, f"req:{wanted}"):
            assert max(width_of(line) for line in request_lines(life, width)) <= width


@pytest.mark.parametrize("name", [name for name, rows in ODD_RUNS.items() if "requests" in rows])
def test_odd_requests_are_told(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path, ODD_RUNS[name])
    rid = ODD_RUNS[name]["requests"][0]["rid"]
    assert main(["request", str(run), f"req:{rid}"]) == 0
    assert f"req:{rid}" in capsys.readouterr().out
    assert main(["request", str(run), f"req:{rid}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"][0]["request"]["rid"] == rid
