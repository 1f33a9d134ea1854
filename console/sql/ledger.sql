-- How much time did some of the answered requests spend, in all, by phase and by cause, in ns? Those between $low and $high
-- by the measure, the ends included where $low_too and $high_too say so; an end that is NULL is none (SPEC F3).
-- Causes sum to the row `e2e`; so do phases, where spans tile all lives (SPEC F1).
WITH lived AS (
    SELECT
        rid, attempt, e2e_ns,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
members AS (
    SELECT rid, attempt, e2e_ns
    FROM lived
    WHERE coalesce(ns > $low::DOUBLE OR ($low_too AND ns = $low::DOUBLE), $low::DOUBLE IS NULL)
        AND coalesce(ns < $high::DOUBLE OR ($high_too AND ns = $high::DOUBLE), $high::DOUBLE IS NULL)
)
SELECT 'e2e' AS kind, 'E2E' AS name, coalesce(sum(e2e_ns), 0)::BIGINT AS ns, count(*) AS n, true AS measured FROM members
UNION ALL
SELECT 'phase', name, sum("end" - start)::BIGINT, NULL, true
FROM spans SEMI JOIN members USING (rid, attempt)
GROUP BY name
UNION ALL
SELECT 'cause', cause, sum(ns)::BIGINT, NULL, bool_and(measured)
FROM causes SEMI JOIN members USING (rid, attempt)
GROUP BY cause
ORDER BY ALL
