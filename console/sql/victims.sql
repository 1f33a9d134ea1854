-- Which answered requests lost most time to a phase or a cause, in ns? The $top of them, with what share of their E2E it
-- is, largest first.
WITH parts AS (
    SELECT rid, attempt, 'causes' AS kind, cause AS name, ns FROM causes
    UNION ALL
    SELECT rid, attempt, 'phases', name, "end" - start FROM spans
),
lost AS (
    SELECT rid, attempt, sum(ns)::BIGINT AS ns
    FROM parts
    WHERE kind = $kind AND name = $name
    GROUP BY rid, attempt
)
SELECT rid, attempt, request_id, prompt_tokens, lost.ns, e2e_ns, lost.ns / nullif(e2e_ns, 0) AS share
FROM lost JOIN latency USING (rid, attempt)
WHERE status = 'ok' AND e2e_ns IS NOT NULL
ORDER BY lost.ns DESC, rid, attempt
LIMIT $top
