-- Did waiting begin at an instant $t? The wait in the queue (ns) of the answered requests that came before and after it, and how
-- many of each are slow by the measure.
SELECT
    count(*) FILTER (arrival < $t) AS before,
    count(*) FILTER (arrival >= $t) AS after,
    quantile_disc(queue_ns, 0.5) FILTER (arrival < $t) AS wait_before,
    quantile_disc(queue_ns, 0.5) FILTER (arrival >= $t) AS wait_after,
    count(*) FILTER (arrival < $t AND slow) AS slow_before,
    count(*) FILTER (arrival >= $t AND slow) AS slow_after
FROM (
    SELECT *, measured > $edge::DOUBLE OR (measured = $edge::DOUBLE AND $at) AS slow
    FROM (
        SELECT
            arrival, queue_ns,
            CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS measured
        FROM latency
        WHERE status = 'ok' AND e2e_ns IS NOT NULL
    )
)
