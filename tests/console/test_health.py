"""How far everything is on disk, as far as what the recorder told can say (SPEC F8)."""

from pathlib import Path

import pytest

from console.health import recorder_health
from console.session import Session
from recorder.producer import PartProducer
from tests.console.tui_runs import MS, begin, close


@pytest.mark.parametrize(
    ("told_ms", "durable_ms"),
    [
        ({"steps": 9_000, "events": 8_500}, 8_500),
        ({"steps": 90_000, "stalls": 40}, 88_000),
        ({"steps": 40}, 40),
    ],
    ids=["both busy", "one had nothing to tell", "one alone"],
)
def test_a_quiet_ring_does_not_hold_back_what_is_durable(
    tmp_path: Path, told_ms: dict[str, int], durable_ms: int
) -> None:
    run, out = begin(tmp_path, "told")
    _tell(out, told_ms)
    with Session(close(run, out)) as session, session.connect() as cursor:
        health = recorder_health(session, cursor)
    assert health["durable"] == durable_ms * MS
    assert "newest" not in health


def _tell(out: PartProducer, told_ms: dict[str, int]) -> None:
    for table, ms in told_ms.items():
        out.row("recorder", t=ms * MS, producer="worker0", table_name=table, events=1, lost=0, drops=0, bytes=1,
                append_ns=400, durable=ms * MS)  # fmt: skip
