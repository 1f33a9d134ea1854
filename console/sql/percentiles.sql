-- How long did answered requests take, by each measure, in ns? Nearest rank, so every value was lived by some request
-- (SPEC E4: `quantile_disc` is the value at position ceil(q * n)). Requests without the stamps are not in `n`.
WITH measured AS (
    UNPIVOT (
        SELECT queue_ns::DOUBLE AS queue, ttft_ns::DOUBLE AS ttft, tpot_ns AS tpot, e2e_ns::DOUBLE AS e2e
        FROM latency
        WHERE status = 'ok'
    )
    ON queue, ttft, tpot, e2e
    INTO NAME measure VALUE ns
)
SELECT
    measure,
    count(*) AS n,
    quantile_disc(ns, 0.5) AS p50,
    quantile_disc(ns, 0.95) AS p95,
    quantile_disc(ns, 0.99) AS p99,
    max(ns) AS max
FROM measured
GROUP BY measure
ORDER BY measure
