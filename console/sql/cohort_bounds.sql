-- Where do the slow and the typical answered requests begin and end, by a measure, in ns? Nearest rank (SPEC E4).
SELECT n, ranks[1] AS slow, ranks[2] AS low, ranks[3] AS high
FROM (
    SELECT count(ns) AS n, quantile_disc(ns, [$slow::DOUBLE, 0.25, 0.75]) AS ranks
    FROM (
        SELECT CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
        FROM latency
        WHERE status = 'ok' AND e2e_ns IS NOT NULL
    )
)
