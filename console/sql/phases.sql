-- In which phases did the answered requests spend their time, in ns? An answered request that never was in a phase
-- counts there with 0, so percentiles of different phases are over the same requests.
WITH answered AS (
    SELECT rid, attempt, e2e_ns FROM latency WHERE status = 'ok'
),
phases AS (
    SELECT DISTINCT name FROM spans
),
lived AS (
    SELECT rid, attempt, name, sum("end" - start)::BIGINT AS ns
    FROM spans
    GROUP BY rid, attempt, name
),
filled AS (
    SELECT phases.name, coalesce(lived.ns, 0) AS ns
    FROM answered
    CROSS JOIN phases
    LEFT JOIN lived ON lived.rid = answered.rid AND lived.attempt = answered.attempt AND lived.name = phases.name
)
SELECT
    name,
    quantile_disc(ns, 0.5) AS p50,
    quantile_disc(ns, 0.95) AS p95,
    quantile_disc(ns, 0.99) AS p99,
    sum(ns)::BIGINT AS total,
    sum(ns) / nullif((SELECT sum(e2e_ns) FROM answered), 0) AS share
FROM filled
GROUP BY name
ORDER BY total DESC, name
