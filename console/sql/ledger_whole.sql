-- How much time did all answered requests of the run spend, in all, by phase and by cause, in ns? As `ledger`, for a cursor
-- under no filter: the few others are left out, instead of looking up the many answered ones.
WITH others AS (SELECT rid, attempt FROM latency WHERE status <> 'ok' OR e2e_ns IS NULL)
SELECT 'e2e' AS kind, 'E2E' AS name, coalesce(sum(e2e_ns), 0)::BIGINT AS ns, count(*) AS n, true AS measured
FROM latency
WHERE status = 'ok' AND e2e_ns IS NOT NULL
UNION ALL
SELECT 'phase', name, sum("end" - start)::BIGINT, NULL, true
FROM spans ANTI JOIN others USING (rid, attempt)
GROUP BY name
UNION ALL
SELECT 'cause', cause, sum(ns)::BIGINT, NULL, bool_and(measured)
FROM causes ANTI JOIN others USING (rid, attempt)
GROUP BY cause
ORDER BY ALL
