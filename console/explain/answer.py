"""The whole account of a run: what `tailtrace explain --json` prints, and the screen shows."""

import shlex
from typing import TYPE_CHECKING, Any

from console.blame.cohorts import Slow
from console.explain.finding import Finding, Kind
from console.explain.gathering import gather
from console.explain.ranking import Account, account
from console.filter import EVERYTHING, Filter
from console.session import Session

if TYPE_CHECKING:
    import duckdb

TITLES = {
    Kind.CLOSED_LOOP: "Closed loop",
    Kind.LOST_RECORDS: "Lost records",
    Kind.WORKER_LOST: "Worker lost",
    Kind.REFUSALS: "No answer",
    Kind.CACHE_MISSES: "Cache misses",
    Kind.STARVED_TIER: "Starved tier",
    Kind.KV_EXHAUSTED: "KV cache exhausted",
    Kind.BATCH_TIMER: "Batch timer",
    Kind.GC_PAUSES: "GC pauses",
    Kind.EVENT_LOOP: "Event loop held up",
    Kind.COLD_STEPS: "Cold steps",
    Kind.SLOW_CLIENTS: "Slow clients",
    Kind.WAY_OUT: "Way out",
    Kind.WAY_IN: "Way in",
    Kind.LONG_PROMPTS: "Prompts of others",
    Kind.QUEUE_SATURATED: "Waiting in the queue",
    Kind.SLOWER_STEPS: "Slower steps",
    Kind.HOST_TIME: "Host time",
    Kind.ASKED_FOR_MORE: "Own work",
}
"""What a finding is called."""


def explain(
    session: Session,
    only: Filter = EVERYTHING,
    slow: Slow | None = None,
    cursor: "duckdb.DuckDBPyConnection | None" = None,
) -> Account:
    """The account of the requests under a filter. `slow` says which are slow; without it p99 does, or p95 of less than
    1,000 answered ones. `cursor` is a fresh one, which lets the caller interrupt. Odd runs fail nothing."""
    cursor = cursor if cursor is not None else session.connect()
    session.narrow(cursor, only)
    return account(gather(session, cursor, str(only), slow))


def open_command(run: str, finding: Finding, only: str = "") -> str:
    """The command that shows the evidence in the console; empty where there is none to show."""
    if not finding.only and not finding.at:
        return ""
    words = ["tailtrace", "open", run, "--screen", "timeline"]
    wanted = " ".join(text for text in (only, finding.only) if text)
    words += ["--filter", wanted] if wanted else []
    words += ["--at", finding.at] if finding.at else []
    return shlex.join(words)


def whatif_command(run: str, finding: Finding) -> str:
    """The command that re-runs the recording with what the finding suggests; empty where it suggests no setting."""
    changes = finding.suggestion.changes if finding.suggestion else ()
    return shlex.join(["tailtrace", "whatif", run, *changes[0].options, "--out", "WHATIF"]) if changes else ""


def document(found: Account, run: str) -> dict[str, Any]:
    """For other programs; `run` is how the run was named on the command line. Shares of all parts sum to 1."""
    evidence, pulse = found.evidence, found.evidence.pulse
    return {
        "run": evidence.run,
        "state": evidence.state,
        "damages": [{"file": file, "what": what} for file, what in evidence.damages],
        "filter": evidence.only,
        "requests": dict(evidence.states),
        "view": found.view,
        "slow": {"is": str(evidence.cohorts.slow), "n": evidence.slow.n, "words": evidence.cohorts.words},
        "typical": {"n": evidence.typical.n},
        "ratio": pulse.ratio,
        "p50_ns": pulse.p50_ns,
        "p99_ns": pulse.p99_ns,
        "verdicts": [{"name": one.name, "grade": one.grade, "said": one.said} for one in pulse.findings],
        "whole_ns": None if found.whole_ns is None else float(found.whole_ns),
        "stands_out": bool(found.prominent),
        "findings": [_finding(finding, run, evidence.only) for finding in found.findings],
        "small_share": float(found.small),
        "unexplained_share": float(found.unexplained),
    }


def _finding(finding: Finding, run: str, only: str) -> dict[str, Any]:
    suggestion, steps = finding.suggestion, finding.steps
    return {
        "kind": finding.kind.value,
        "nature": finding.nature.value,
        "title": TITLES[finding.kind],
        "share": None if finding.share is None else float(finding.share),
        "everyone_share": finding.everyone,
        "excess_ns": None if finding.excess_ns is None else float(finding.excess_ns),
        "sentences": list(finding.sentences),
        "causes": list(finding.causes),
        "victims": finding.victims,
        "slow": finding.slow,
        "culprits": [
            {"rid": one.rid, "request_id": one.request_id, "prompt_tokens": one.prompt_tokens, "share": one.share}
            for one in finding.culprits
        ],
        "steps": None if steps is None else {"worker": steps.worker, "first": steps.first, "last": steps.last},
        "stands_out": finding.stands_out,
        "confidence": "measured" if finding.measured else "modelled",
        "advice": suggestion.advice if suggestion else None,
        "changes": [str(change) for change in suggestion.changes] if suggestion else [],
        "filter": finding.only,
        "at": finding.at,
        "open": open_command(run, finding, only),
        "whatif": whatif_command(run, finding),
        "figures": finding.figures,
    }
