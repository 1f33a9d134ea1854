-- How much did answered requests lose to each cause that has a limit, in ns, how many kept it, and who lost most beyond
-- it? `$causes` and `$limits_ns` are lists of one length; a name without `/` stands for all causes below it. Whoever lost
-- nothing to a cause has kept its limit.
WITH limits AS (SELECT unnest($causes::VARCHAR[]) AS cause, unnest($limits_ns::BIGINT[]) AS limit_ns),
answered AS (SELECT rid, attempt, request_id FROM requests WHERE status = 'ok'),
lost AS (
    SELECT rid, attempt, limits.cause, sum(ns) AS ns
    FROM causes JOIN limits ON causes.cause = limits.cause OR starts_with(causes.cause, limits.cause || '/')
    GROUP BY ALL
),
filled AS (
    SELECT request_id, limits.cause, limit_ns, coalesce(lost.ns, 0)::BIGINT AS ns
    FROM answered
    CROSS JOIN limits
    LEFT JOIN lost ON lost.rid = answered.rid AND lost.attempt = answered.attempt AND lost.cause = limits.cause
)
SELECT
    cause AS part,
    count(*) AS n,
    count(*) FILTER (ns <= limit_ns) AS inside,
    quantile_disc(ns, 0.5) AS p50,
    quantile_disc(ns, 0.95) AS p95,
    quantile_disc(ns, 0.99) AS p99,
    max(ns) AS max,
    coalesce(
        list({'request_id': request_id, 'ns': ns} ORDER BY ns DESC, request_id) FILTER (ns > limit_ns), []
    )[:3] AS worst
FROM filled
GROUP BY cause
ORDER BY cause
