"""The suggested settings, each re-run in virtual time by the scheduler that served, with its error (SPEC F5)."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from console.explain.finding import WORKERS, Change, Finding
from console.explain.rerun import Rerun
from engine.whatif.answer import Question, answer
from engine.whatif.changes import parse_changes
from engine.whatif.recorded import Recorded, read_recorded
from engine.whatif.trust import LIMIT
from recorder.tables import open_tables


def try_changes(run: Path, findings: Iterable[Finding], tell: Callable[[Change], None]) -> tuple[Rerun, ...]:
    """Re-run a recording with each setting that the first finding with any suggests; none where there is none.

    `tell` is told before each. Raises WhatIfError or CostError for a recording that can't be re-run. Leaves no run.
    """
    suggested = (finding.suggestion.changes for finding in findings if finding.suggestion)
    changes: tuple[Change, ...] = next((some for some in suggested if some), ())
    if not changes:
        return ()
    recorded = read_recorded(open_tables(run))
    found = []
    for change in changes:
        tell(change)
        found.append(_rerun(recorded, change))
    return tuple(found)


def _rerun(recorded: Recorded, change: Change) -> Rerun:
    workers = int(str(change.value)) if change.key == WORKERS else None
    changes = {} if workers else parse_changes([str(change)])
    with tempfile.TemporaryDirectory(prefix="tailtrace-") as folder:
        told = answer(recorded, Question(changes, workers, Path(folder) / "whatif", LIMIT))
    return Rerun(
        change=str(change),
        recorded=told.recorded,
        again=told.again,
        changed=told.what_if,
        errors=told.errors,
        limit=told.limit,
        trusted=told.trusted,
        reasons=told.reasons,
        notes=told.notes,
    )
