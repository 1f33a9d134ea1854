"""The rules that a sound ledger obeys, each as the SQL that finds the rows which break it. No row, no fault.

The tables are those of `recorder.schema`, plus `causes` (`OF_CAUSES`) and those of `PREPARED`.
"""

from dataclasses import dataclass
from typing import Final

PREPARED: Final = """
CREATE TEMP TABLE worker_ends AS
SELECT worker, max(step) AS last_step, max(t_end) AS t_end
FROM (SELECT worker, step, t_end FROM steps UNION ALL SELECT worker, stop - 1, t_end FROM left_out) GROUP BY ALL;

CREATE TEMP TABLE answered AS
FROM requests
WHERE status = 'ok' AND ($sealed OR last_token IS NULL
    OR last_token <= (SELECT max(t_end) FROM worker_ends WHERE worker = requests.worker));

CREATE TEMP TABLE whole AS FROM answered ANTI JOIN partly_kept USING (rid, attempt);

CREATE TEMP TABLE parts AS
SELECT a.rid, a.attempt, s.step, s.computed_before, s.tokens, t.t_exec, t.t_done
FROM slices s
JOIN steps t USING (worker, step)
JOIN whole a ON a.rid = s.rid AND a.worker = s.worker AND t.t_exec >= a.queued AND t.t_exec <= a.returned;
"""
"""`answered`: attempts that ended well, and whose last step did, too: a worker that is killed (or looked at) between
handing out its tokens and writing its row leaves an answer without a step. `whole`: those of whose passes none was left
out on purpose (`left_out`, `partly_kept`: see `recorder.left_out`). `parts`: their slices."""


OF_CAUSES: Final = """
SELECT
    rid, attempt, sum(ns)::BIGINT AS named, min(ns) AS least,
    coalesce(sum(ns) FILTER (cause = 'UNNAMED'), 0)::BIGINT AS unnamed,
    (sum(ns) FILTER (cause = 'NOT_KEPT'))::BIGINT AS not_kept
FROM arriving GROUP BY rid, attempt"""
"""What the rules ask of the causes (`recorder.attribution`) of an attempt."""


@dataclass(frozen=True)
class Rule:
    """`broken` selects what breaks the rule; `counted` names the table whose rows it looked at, and `noun` them.

    `needs` are the tables without which it can't be asked: in a run that never recorded them it says so, and holds.
    """

    name: str
    counted: str
    noun: str
    broken: str
    needs: tuple[str, ...] = ()


ATTEMPTS_END_ONCE: Final = Rule(
    "attempts end once",
    "requests",
    "attempts",
    """
SELECT rid, attempt, 'written ' || count(*) || ' times' AS fault FROM requests GROUP BY ALL HAVING count(*) > 1
UNION ALL
SELECT rid, attempt, 'open, yet returned' FROM requests WHERE status = 'open' AND returned IS NOT NULL
UNION ALL
SELECT rid, attempt, 'ok, yet not returned' FROM requests WHERE status = 'ok' AND returned IS NULL
ORDER BY rid, attempt
""",
)

PASSES_TILE: Final = Rule(
    "passes tile",
    "steps",
    "passes",
    """
WITH all_passes AS (
    SELECT worker, step, step AS last_step, t_sched, t_end FROM steps
    UNION ALL SELECT worker, first, stop - 1, t_sched, t_end FROM left_out
)
SELECT worker, step, t_sched, lag(last_step) OVER passes AS step_before, lag(t_end) OVER passes AS t_end_before
FROM all_passes
WINDOW passes AS (PARTITION BY worker ORDER BY step, t_sched)
QUALIFY step <> coalesce(step_before + 1, 0) OR t_sched <> t_end_before
ORDER BY worker, step
""",
    ("steps",),
)

STAMPS_IN_ORDER: Final = Rule(
    "stamps in order",
    "requests",
    "attempts",
    """
WITH told AS (
    SELECT 'requests' AS "table", rid, attempt, NULL AS worker, NULL AS step,
           [arrival, admitted, queued, first_scheduled, first_token, last_token]
           || CASE WHEN status = 'ok' THEN [returned] ELSE [] END AS stamps
    FROM requests
    UNION ALL BY NAME SELECT 'requests' AS "table", rid, attempt, [arrival, returned] AS stamps FROM requests
    UNION ALL BY NAME SELECT 'steps' AS "table", worker, step, [t_sched, t_exec, t_done, t_end] AS stamps FROM steps
    UNION ALL BY NAME
    SELECT 'deliveries' AS "table", worker, step, [t_done, t_sent, t_end] AS stamps
    FROM deliveries JOIN steps USING (worker, step)
    UNION ALL BY NAME
    SELECT 'deliveries' AS "table", worker, step, [t_sent, t_received, t_written] AS stamps FROM deliveries
    UNION ALL BY NAME
    SELECT 'events' AS "table", rid, worker, step, [t_sched, t, t_end] AS stamps
    FROM events JOIN steps USING (worker, step)
    UNION ALL BY NAME SELECT 'spans' AS "table", rid, attempt, [start, "end" - 1] AS stamps FROM spans
    UNION ALL BY NAME SELECT 'stalls' AS "table", rid, device AS worker, [t_start, t_end] AS stamps FROM stalls
), known AS (SELECT * REPLACE (list_filter(stamps, lambda t: t IS NOT NULL) AS stamps) FROM told)
SELECT * FROM known WHERE stamps <> list_sort(stamps) ORDER BY ALL
""",
)

STAMPS_MATCH_STEPS: Final = Rule(
    "stamps match steps",
    "requests",
    "attempts",
    """
WITH seen AS (
    SELECT rid, attempt, min(t_exec) AS began, max(t_done) AS ended, list(t_done) AS dones FROM parts GROUP BY ALL
)
SELECT rid, attempt, first_scheduled, began AS first_execution, first_token, last_token, ended AS last_execution
FROM requests JOIN seen USING (rid, attempt)
WHERE first_scheduled <> began OR last_token <> ended OR NOT list_contains(dones, first_token)
ORDER BY rid, attempt
""",
    ("steps", "slices"),
)

SLICES_MATCH_STEPS: Final = Rule(
    "slices match steps",
    "steps",
    "passes",
    """
WITH told AS (
    SELECT worker, step, num_prefill_requests AS prefills, sum_prefill_tokens AS prefill_tokens,
           sum_prefill_kv_tokens AS prefill_kv, num_decode_requests AS decodes, sum_decode_kv_tokens AS decode_kv
    FROM steps
), summed AS (
    SELECT worker, step, count(*) FILTER (role <> 'decode') AS prefills,
           coalesce(sum(tokens) FILTER (role <> 'decode'), 0)::BIGINT AS prefill_tokens,
           coalesce(sum(computed_before) FILTER (role <> 'decode'), 0)::BIGINT AS prefill_kv,
           count(*) FILTER (role = 'decode') AS decodes,
           coalesce(sum(computed_before) FILTER (role = 'decode'), 0)::BIGINT AS decode_kv
    FROM slices GROUP BY ALL
)
SELECT worker, step, told.* EXCLUDE (worker, step),
       coalesce(summed.prefills, 0) AS slices_prefills, coalesce(summed.prefill_tokens, 0) AS slices_prefill_tokens,
       coalesce(summed.prefill_kv, 0) AS slices_prefill_kv, coalesce(summed.decodes, 0) AS slices_decodes,
       coalesce(summed.decode_kv, 0) AS slices_decode_kv
FROM told LEFT JOIN summed USING (worker, step)
WHERE (told.prefills, told.prefill_tokens, told.prefill_kv, told.decodes, told.decode_kv)
   <> (slices_prefills, slices_prefill_tokens, slices_prefill_kv, slices_decodes, slices_decode_kv)
ORDER BY worker, step
""",
    ("steps", "slices"),
)

KV_LEDGER: Final = Rule(
    "kv ledger",
    "steps",
    "passes",
    """
WITH moves AS (
    SELECT worker, step, new_blocks AS blocks FROM slices
    UNION ALL -- what a step gave back when it ended is free from the next one's plan on
    SELECT e.worker, e.step + (e.kind = 'finished' OR e.t > coalesce(s.t_exec, e.t))::BIGINT, -e.freed_blocks
    FROM events e LEFT JOIN steps s USING (worker, step) WHERE e.freed_blocks > 0
    UNION ALL SELECT worker, step, 0 FROM steps
), netted AS (SELECT worker, step, sum(blocks)::BIGINT AS blocks FROM moves GROUP BY ALL),
held AS (SELECT worker, step, sum(blocks) OVER (PARTITION BY worker ORDER BY step)::BIGINT AS held FROM netted),
wrong AS (
    SELECT worker, step, kv_free, held, kv_total, kv_total - kv_free - held AS missing
    FROM steps JOIN held USING (worker, step)
    QUALIFY missing <> lag(missing, 1, 0) OVER (PARTITION BY worker ORDER BY step)
)
FROM wrong ANTI JOIN left_out ON left_out.worker = wrong.worker AND left_out.stop = wrong.step
ORDER BY worker, step
""",
    ("steps", "slices", "events"),
)
"""Only steps at which the account goes wrong, not all that follow; after passes that were left out it begins anew."""

IDS_RESOLVE: Final = Rule(
    "ids resolve",
    "requests",
    "attempts",
    """
-- what lies beyond the last step that ended belongs to one that was cut off
WITH happened AS (FROM events WHERE step <= (SELECT last_step FROM worker_ends WHERE worker = events.worker)),
told AS (
    SELECT 'slices' AS "table", 'rid' AS "column", worker, step, rid FROM slices
    UNION ALL SELECT 'spans', 'rid', worker, first_step, rid FROM spans
    UNION ALL SELECT 'events', 'rid', worker, step, rid FROM happened
    UNION ALL SELECT 'events', 'other_rid', worker, step, other_rid FROM happened
    UNION ALL SELECT 'steps', 'head_rid', worker, step, head_rid FROM steps
    UNION ALL SELECT 'requests', 'retry_of', worker, NULL, retry_of FROM requests
    UNION ALL SELECT 'stalls', 'rid', NULL, NULL, rid FROM stalls
), placed AS (
    SELECT 'slices' AS "table", 'step' AS "column", worker, step, rid FROM slices
    UNION ALL SELECT 'spans', 'first_step', worker, first_step, rid FROM spans
    UNION ALL SELECT 'spans', 'last_step', worker, last_step, rid FROM spans
    UNION ALL SELECT 'events', 'step', worker, step, rid FROM events
    UNION ALL SELECT 'deliveries', 'step', worker, step, NULL FROM deliveries
), nowhere AS (
    SELECT placed.* FROM placed JOIN worker_ends USING (worker) ANTI JOIN steps USING (worker, step)
    WHERE step <= last_step
)
SELECT * FROM told ANTI JOIN requests USING (rid) WHERE rid IS NOT NULL
UNION ALL
SELECT nowhere.* FROM nowhere
ASOF LEFT JOIN left_out ON nowhere.worker = left_out.worker AND nowhere.step >= left_out.first
WHERE stop IS NULL OR nowhere.step >= stop
ORDER BY ALL
""",
)

TOKENS_ADD_UP: Final = Rule(
    "tokens add up",
    "requests",
    "attempts",
    """
WITH chain AS (
    SELECT worker, rid, step, computed_before, cached, lag(computed_before + tokens) OVER life AS computed
    FROM slices ANTI JOIN partly_kept USING (rid) WINDOW life AS (PARTITION BY worker, rid ORDER BY step)
), reached AS (SELECT rid, attempt, max_by(computed_before + tokens, step) AS computed FROM parts GROUP BY ALL)
SELECT rid, worker, step, 'starts at token ' || computed_before || ' after ' || coalesce(computed, 0) AS fault
FROM chain WHERE computed_before NOT IN (coalesce(computed, 0), coalesce(cached, 0))
UNION ALL
SELECT rid, worker, NULL,
       'computed ' || coalesce(computed, 0) || ' tokens for ' || prompt_tokens || ' + ' || output_tokens || ' - 1'
FROM whole LEFT JOIN reached USING (rid, attempt)
WHERE prompt_tokens + output_tokens - 1 <> coalesce(computed, 0)
ORDER BY ALL
""",
    ("slices",),
)

SPANS_TILE: Final = Rule(
    "spans tile",
    "requests",
    "attempts",
    """
WITH edges AS (
    SELECT rid, attempt, arrival AS start, arrival AS "end", '(arrival)' AS name FROM answered
    UNION ALL SELECT rid, attempt, returned, returned, '(return)' FROM answered
    UNION ALL
    SELECT rid, attempt, start, "end", name::VARCHAR
    FROM spans SEMI JOIN answered USING (rid, attempt)
)
SELECT rid, attempt, name, start, lag("end") OVER life AS end_before
FROM edges
WINDOW life AS (PARTITION BY rid, attempt ORDER BY start, "end", name <> '(arrival)', name = '(return)')
QUALIFY start <> end_before
ORDER BY rid, attempt, start
""",
    ("spans",),
)

CAUSES_SUM: Final = Rule(
    "causes sum",
    "requests",
    "attempts",
    """
SELECT rid, attempt, returned - arrival AS end_to_end, coalesce(named, 0) AS named, least
FROM requests LEFT JOIN causes USING (rid, attempt)
WHERE least < 0 OR (status = 'ok' AND coalesce(named, 0) <> end_to_end)
ORDER BY rid, attempt
""",
)

RULES: Final = (
    ATTEMPTS_END_ONCE,
    PASSES_TILE,
    STAMPS_IN_ORDER,
    STAMPS_MATCH_STEPS,
    SLICES_MATCH_STEPS,
    KV_LEDGER,
    IDS_RESOLVE,
    TOKENS_ADD_UP,
    SPANS_TILE,
    CAUSES_SUM,
)
