"""The suggested setting, re-run in virtual time by the scheduler that served, with the error of re-running (F5)."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from console.explain.finding import Finding
from console.explain.rerun import Rerun
from engine.whatif.answer import Question, answer
from engine.whatif.changes import parse_changes
from engine.whatif.recorded import read_recorded
from engine.whatif.trust import LIMIT
from recorder.tables import open_tables


def first_rerun(run: Path, findings: Iterable[Finding]) -> Rerun | None:
    """Re-run a recording with the first setting that findings suggest; None where they suggest none.

    Raises WhatIfError or CostError for a recording that can't be re-run. Leaves no run behind.
    """
    changes = (finding.suggestion.change for finding in findings if finding.suggestion)
    change = next((change for change in changes if change), None)
    return None if change is None else _rerun(run, *change)


def _rerun(run: Path, option: str, value: str) -> Rerun:
    changes = parse_changes([value]) if option == "--set" else {}
    workers = int(value) if option == "--workers" else None
    recorded = read_recorded(open_tables(run))
    with tempfile.TemporaryDirectory(prefix="tailtrace-") as folder:
        told = answer(recorded, Question(changes, workers, Path(folder) / "whatif", LIMIT))
    return Rerun(
        change=value if option == "--set" else f"workers={value}",
        recorded=told.recorded,
        again=told.again,
        changed=told.what_if,
        errors=told.errors,
        limit=told.limit,
        trusted=told.trusted,
        reasons=told.reasons,
        notes=told.notes,
    )
