-- How long did it take to answer requests, in ns? How many were answered, and what some of them took, by nearest rank (SPEC E4).
SELECT
    n, ranks[1] AS p25_ns, ranks[2] AS p50_ns, ranks[3] AS p75_ns, ranks[4] AS p95_ns, ranks[5] AS p99_ns,
    ranks[6] AS p995_ns, max_ns
FROM (
    SELECT
        count(e2e_ns) AS n, quantile_disc(e2e_ns, [0.25, 0.5, 0.75, 0.95, 0.99, 0.995]) AS ranks, max(e2e_ns) AS max_ns
    FROM latency
    WHERE status = 'ok'
)
