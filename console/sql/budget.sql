-- How long was one part of an answered request's life, in ns, how many kept its limit, and who took longest beyond it?
-- `ingress`, `waiting`, `execution` and `return` sum to e2e (SPEC A4). TPOT is rounded up to a whole ns, so that comparing
-- it is exact. One part at a time: the times of millions of requests in all of them would not fit into the memory there is.
WITH lived AS (
    SELECT
        request_id,
        CASE $part
            WHEN 'ingress' THEN queued - arrival
            WHEN 'waiting' THEN first_scheduled - queued
            WHEN 'execution' THEN last_token - first_scheduled
            WHEN 'return' THEN returned - last_token
            WHEN 'ttft' THEN first_token - arrival
            WHEN 'tpot' THEN CASE WHEN output_tokens > 1
                THEN (last_token - first_token + output_tokens - 2) // (output_tokens - 1)
            END
            WHEN 'e2e' THEN returned - arrival
        END AS ns
    FROM requests
    WHERE status = 'ok'
),
worst AS (SELECT request_id, ns FROM lived WHERE ns > $limit_ns::BIGINT ORDER BY ns DESC, request_id LIMIT 3),
times AS (
    SELECT
        count(ns) AS n,
        count(ns) FILTER (ns <= $limit_ns::BIGINT) AS inside,
        quantile_disc(ns, [0.5, 0.95, 0.99]) AS ranks,
        max(ns) AS max
    FROM lived
)
SELECT
    n, inside, ranks[1] AS p50, ranks[2] AS p95, ranks[3] AS p99, max,
    coalesce((SELECT list({'request_id': request_id, 'ns': ns} ORDER BY ns DESC, request_id) FROM worst), []) AS worst
FROM times
