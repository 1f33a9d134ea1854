-- Which answered requests lost most time to a phase or a cause, in ns? The $top of them, with what share of their E2E it
-- is, largest first. $column is what of `attempt_times`: `PREFILL` is a cause, `phase prefill` a phase.
WITH lost AS (
    SELECT rid, attempt, request_id, prompt_tokens, e2e_ns, COLUMNS(lambda name: name = $column) AS ns
    FROM attempt_times
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
)
SELECT rid, attempt, request_id, prompt_tokens, ns, e2e_ns, ns / nullif(e2e_ns, 0) AS share
FROM lost
WHERE ns IS NOT NULL
ORDER BY ns DESC, rid, attempt
LIMIT $top
