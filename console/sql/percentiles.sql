-- How long did answered requests take, by each measure, in ns? Nearest rank, so every value was lived by some request
-- (SPEC E4: `quantile_disc` is the value at position ceil(q * n)). Requests without the stamps are not in `n`.
WITH measured AS (
    SELECT
        {'n': count(ttft_ns), 'q': quantile_disc(ttft_ns, [0.5, 0.95, 0.99])::DOUBLE[], 'max': max(ttft_ns)} AS ttft,
        {'n': count(tpot_ns), 'q': quantile_disc(tpot_ns, [0.5, 0.95, 0.99])::DOUBLE[], 'max': max(tpot_ns)} AS tpot,
        {'n': count(e2e_ns), 'q': quantile_disc(e2e_ns, [0.5, 0.95, 0.99])::DOUBLE[], 'max': max(e2e_ns)} AS e2e
    FROM latency
    WHERE status = 'ok'
)
SELECT measure, it.n, it.q[1] AS p50, it.q[2] AS p95, it.q[3] AS p99, it.max::DOUBLE AS max
FROM (UNPIVOT measured ON ttft, tpot, e2e INTO NAME measure VALUE it)
WHERE it.n > 0
ORDER BY measure
