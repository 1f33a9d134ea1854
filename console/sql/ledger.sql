-- How much time did each cohort of answered requests spend, in all, by phase and by cause, in ns? The slow ones are beyond
-- $edge by the measure, or at it too where $at counts; the typical ones between $low and $high, and not slow (SPEC F3).
-- The causes of a cohort sum to its row `e2e`; so do its phases, where spans tile all lives (SPEC F1).
WITH lived AS (
    SELECT
        rid, attempt, e2e_ns,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
sided AS (
    SELECT
        rid, attempt, e2e_ns,
        CASE
            WHEN ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at) THEN 'slow'
            WHEN ns BETWEEN $low::DOUBLE AND $high::DOUBLE THEN 'typical'
            ELSE 'other'
        END AS cohort
    FROM lived
)
SELECT cohort, 'e2e' AS kind, 'E2E' AS name, sum(e2e_ns)::BIGINT AS ns, count(*) AS n, true AS measured
FROM sided
GROUP BY cohort
UNION ALL
SELECT cohort, 'phase', name, sum("end" - start)::BIGINT, NULL, true
FROM sided JOIN spans USING (rid, attempt)
GROUP BY cohort, name
UNION ALL
SELECT cohort, 'cause', cause, sum(ns)::BIGINT, NULL, bool_and(measured)
FROM sided JOIN causes USING (rid, attempt)
GROUP BY cohort, cause
ORDER BY ALL
