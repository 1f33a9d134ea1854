"""Every question of `console/sql` against its golden answer on one small run.

`UPDATE_GOLDEN=1 pytest tests/console/test_sql.py` writes the answers anew; read the difference before keeping it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from console.session import Session, question, rows

GOLDEN = Path(__file__).parent / "golden"
SQL = Path(__file__).parents[2] / "console" / "sql"
NAMES = sorted(path.stem for path in SQL.glob("*.sql"))

MS = 1_000_000
PARAMS: dict[str, dict[str, Any]] = {
    "budget": {
        "ingress_ns": 1 * MS,
        "waiting_ns": 2 * MS,
        "execution_ns": 20 * MS,
        "return_ns": 2 * MS,
        "ttft_ns": 14 * MS,
        "tpot_ns": 9 * MS,
        "e2e_ns": None,
    },
    "slo": {"ttft_ns": 33 * MS, "tpot_ns": 10 * MS, "e2e_ns": 34 * MS},
    "find_request": {"id": "req-2", "rid": 1},
    "request": {"rid": 1, "attempt": 1},
    "request_phases": {"rid": 1, "attempt": 1},
    "request_causes": {"rid": 2, "attempt": 1},
    "request_steps": {"rid": 1},
    "request_events": {"rid": 1},
    "timeline_causes": {"rid": 2, "attempt": 1},
    "timeline_lanes": {"high": 40_000_000},
    "timeline_slices": {"worker": 0, "first": 1, "last": 2},
    "timeline_spans": {"high": 40_000_000},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_question_gets_its_golden_answer(golden: Session, name: str) -> None:
    answer = rows(golden.ask(name, **PARAMS.get(name, {})))
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
        for field in golden.ask(name, **PARAMS.get(name, {})).schema:
            assert not str(field.type).startswith(("decimal", "dictionary")), f"{name}.{field.name} is {field.type}"
