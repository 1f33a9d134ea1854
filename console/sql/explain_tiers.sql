-- How does each service class fare? Answered requests, how many of them are slow by the measure, and their wait in the queue
-- (ns).
SELECT
    tier,
    count(*) AS n,
    count(*) FILTER (ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at)) AS slow,
    quantile_disc(queue_ns, 0.5) AS queue_p50
FROM (
    SELECT
        coalesce(tier, '') AS tier, queue_ns,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
)
GROUP BY tier
ORDER BY n DESC, tier
