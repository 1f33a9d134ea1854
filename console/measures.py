"""The latency measures of a request: one definition each, as the SQL that computes it and the formula that is shown.

No measure has two definitions (SPEC D1, E4). All are in ns over the stamps of one attempt; a missing stamp gives NULL.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Measure:
    """`name` is its key in reports; `sql` computes it in ns from a row of `requests`."""

    name: str
    title: str
    formula: str
    sql: str

    @property
    def column(self) -> str:
        """The column of the view `latency` that holds it."""
        return f"{self.name}_ns"


QUEUE: Final = Measure("queue", "Queue", "first_scheduled - arrival", "first_scheduled - arrival")
TTFT: Final = Measure("ttft", "TTFT", "first_token - arrival", "first_token - arrival")
TPOT: Final = Measure(
    "tpot",
    "TPOT",
    "(last_token - first_token) / (output_tokens - 1)",
    "CASE WHEN output_tokens > 1 THEN (last_token - first_token) / (output_tokens - 1) END",
)
E2E: Final = Measure("e2e", "E2E", "returned - arrival", "returned - arrival")

MEASURES: Final = (QUEUE, TTFT, TPOT, E2E)
REPORTED: Final = (TTFT, TPOT, E2E)
"""The measures that open a report; the wait in the queue is also one of its phases."""

CLOSURE_FORMULA: Final = "(sum of causes - UNNAMED - NOT_KEPT) / sum of (returned - arrival), over ok requests"
REQUEST_RATE_FORMULA: Final = "ok requests / window"
GOODPUT_FORMULA: Final = "ok requests inside the SLO / window"
TOKEN_RATE_FORMULA: Final = "output tokens of all requests that ended / window"
WINDOW_FORMULA: Final = "last stamp - first arrival"


def phase_column(name: str) -> str:
    """The time in a phase, where it is a column beside those of causes: to SQL `prefill` and `PREFILL` are one name."""
    return f"phase {name}"


_LIVED_THEN: Final = """lossy.ended >= arrival
    AND lossy.began <= coalesce(returned, CASE status WHEN 'open' THEN lossy.began
        ELSE greatest(arrival, admitted, queued, first_scheduled, first_token, last_token) END)"""


def latency_view(source: str, *, lossy: bool) -> str:
    """The SELECT behind the view `latency`: one row an attempt, its measures and what a reader sorts and filters by.

    `source` is a kind of `requests`. `incomplete` attempts lived while records were lost (the table `lossy`, if there
    is one): some of what is shown of them may be missing.
    """
    incomplete = f"EXISTS (SELECT 1 FROM lossy WHERE {_LIVED_THEN})" if lossy else "false"
    measures = ",\n    ".join(f"{measure.sql} AS {measure.column}" for measure in MEASURES)
    return f"""SELECT
    rid, attempt, request_id, tenant, tier, model, worker, status, arrival, returned,
    prompt_tokens, output_tokens, preemptions,
    {measures},
    {incomplete} AS incomplete
FROM {source}"""
