-- Where do the slow and the typical answered requests begin and end, by a measure, in ns? Nearest rank (SPEC E4).
SELECT
    count(ns) AS n,
    quantile_disc(ns, $slow::DOUBLE) AS slow,
    quantile_disc(ns, 0.25) AS low,
    quantile_disc(ns, 0.75) AS high
FROM (
    SELECT CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
)
