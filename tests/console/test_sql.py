"""Every question of `console/sql` against its golden answer on one small run.

`UPDATE_GOLDEN=1 pytest tests/console/test_sql.py` writes the answers anew; read the difference before keeping it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from console.contrast.samples import choose, show
from console.filter import EVERYTHING
from console.filter_language import parse_filter
from console.session import Session, question, rows
from recorder.words import EventKind, Reason

GOLDEN = Path(__file__).parent / "golden"
SQL = Path(__file__).parents[2] / "console" / "sql"
NAMES = sorted(path.stem for path in SQL.glob("*.sql"))

MS = 1_000_000
STRETCH: dict[str, Any] = {"since": 0, "until": 40 * MS, "worker": None}
COHORTS: dict[str, Any] = {"measure": "e2e", "edge": 35 * MS, "at": True, "low": 20 * MS, "high": 30 * MS}
PARAMS: dict[str, dict[str, Any]] = {
    "budget": {"part": "tpot", "limit_ns": 4 * MS},
    "contrast_parts": {"causes": ["PREFILL", "DECODE", "UNNAMED"]},
    "cohort_bounds": {"measure": "e2e", "slow": 0.95},
    "ledger": {"measure": "e2e", "edge": 35 * MS, "at": True, "low": 20 * MS, "high": 30 * MS},
    "interference": {"by": "prompt"},
    "interference_pairs": {"top": 5},
    "culprits": {"top": 5, "cause": None},
    "victims": {"column": "PREFILL", "top": 2},
    "budget_causes": {"cause": "QUEUE", "limit_ns": 10 * MS},
    "slo": {"ttft_ns": 33 * MS, "tpot_ns": 10 * MS, "e2e_ns": 34 * MS},
    "e2e_below": {"edges": (27 * MS, 35 * MS, 36 * MS)},
    "explain_blames": {**COHORTS, "named": "slow", "most": 1, "long": 20, "hit": 0.5},
    "explain_cohorts": {**COHORTS, "spent": ("PREFILL", "QUEUE/BEHIND_FIFO KV_BLOCKS", "RETURN")},
    "explain_touched": {"measure": "e2e", "edge": 35 * MS, "at": True, "causes": ("PREFILL", "QUEUE/BEHIND_FIFO")},
    "explain_tiers": {"measure": "e2e", "edge": 35 * MS, "at": True},
    "explain_returns": {"measure": "e2e", "edge": 27 * MS, "at": True},
    "explain_meanwhile": {"rids": (2,), "since": (20 * MS,), "until": (30 * MS,)},
    "explain_around": {"measure": "e2e", "edge": 35 * MS, "at": True, "t": 2 * MS},
    "explain_splits": {"least": 1},
    "explain_people": {"rids": [1, 2, 99]},
    "explain_steps": {"rids": [1, 2]},
    "engine_bins": {**STRETCH, "bins": 3},
    "engine_changes": {**STRETCH, "bins": 4},
    "engine_dead": STRETCH,
    "engine_device": STRETCH,
    "engine_events": STRETCH,
    "engine_evictions": {**STRETCH, "most": 3},
    "engine_executions": STRETCH,
    "engine_kinds": STRETCH,
    "engine_latencies": STRETCH,
    "engine_readings": {"source": "device", "name": "utilization_percent", "since": 0, "until": 40 * MS},
    "engine_refusal_reasons": {"since": 0, "until": 40 * MS},
    "engine_refusals": {"since": 0, "until": 40 * MS},
    "engine_retries": {"since": 0, "until": 40 * MS},
    "engine_stalls": {"since": 0, "until": 40 * MS},
    "find_request": {"id": "req-2", "rid": 1},
    "request": {"rid": 1, "attempt": 1},
    "request_phases": {"rid": 1, "attempt": 1},
    "request_causes": {"rid": 2, "attempt": 1},
    "request_steps": {"rid": 1, "worker": 0, "first": 1, "last": 2},
    "request_reach": {"rid": 1, "worker": 0, "since": 0, "until": 27 * MS},
    "request_passes": {"rid": 1, "worker": 0, "first": 1, "last": 3},
    "request_neighbours": {"rid": 1, "worker": 0, "first": 1, "last": 2},
    "request_attempts": {"rid": 1, "id": "req-1"},
    "request_ids": {"most": 2},
    "lived_phase": {"phase": "queue"},
    "request_stalls": {"worker": 0, "since": 0, "until": 27 * MS},
    "next_slow": {"limit": 20 * MS, "at": False, "arrival": 0, "rid": 1, "way": 1},
    "request_events": {"rid": 1},
    "timeline_causes": {"rid": 2, "attempt": 1},
    "timeline_events": {"kinds": sorted(EventKind), "reasons": sorted(Reason)},
    "timeline_gone": {"rids": [2, 5]},
    "timeline_lanes": {"high": 40_000_000},
    "timeline_slices": {"worker": 0, "first": 1, "last": 2},
    "timeline_some_spans": {"lanes": [1, 0], "rids": [2, 1], "attempts": [1, 1]},
    "timeline_spans": {"high": 40_000_000},
    "timeline_time_in": {"phase": "decode"},
}


def asked(session: Session, name: str) -> pa.Table:
    """The answer; where attempts are compared, those that were answered with the others."""
    with session.connect() as cursor:
        if "chosen" in question(name):
            show(cursor, choose(session, cursor, parse_filter("status:ok"), EVERYTHING))
        return session.ask(name, cursor=cursor, **PARAMS.get(name, {}))


@pytest.mark.parametrize("name", NAMES)
def test_a_question_gets_its_golden_answer(golden: Session, name: str) -> None:
    answer = rows(asked(golden, name))
    golden_file = GOLDEN / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden_file.write_text("[\n" + ",\n".join(f"  {json.dumps(row)}" for row in answer) + "\n]\n")
    assert answer == json.loads(golden_file.read_text())
    assert answer, "a golden answer without rows proves nothing"


@pytest.mark.parametrize("name", NAMES)
def test_a_question_says_first_what_it_answers(name: str) -> None:
    assert question(name).startswith("-- ")


def test_there_is_no_golden_answer_without_a_question() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == NAMES


def test_answers_are_plain_numbers(golden: Session) -> None:
    """Sums of BIGINT are HUGEINT in DuckDB, which would arrive as Decimal and break arithmetic and JSON."""
    for name in NAMES:
        for field in asked(golden, name).schema:
            assert not str(field.type).startswith(("decimal", "dictionary")), f"{name}.{field.name} is {field.type}"
