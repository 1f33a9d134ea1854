-- What were the latencies of each of the chosen attempts, in µs? `chosen` holds `rid, attempt, inside` of those that are
-- compared.
SELECT
    inside,
    queue_ns // 1000 AS queue,
    ttft_ns // 1000 AS ttft,
    floor(tpot_ns / 1000)::BIGINT AS tpot,
    e2e_ns // 1000 AS e2e
FROM latency JOIN chosen USING (rid, attempt)
