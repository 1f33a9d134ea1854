-- How long were attempts in $phase, in ns, whatever became of them? Only those that were in it count; nearest rank. One phase
-- at a time: the times of millions of requests in all of them at once would not fit into the memory there is.
SELECT count(ns) AS n, quantile_disc(ns, 0.5) AS p50, quantile_disc(ns, 0.99) AS p99
FROM (
    SELECT
        CASE $phase
            WHEN 'ingress' THEN ingress
            WHEN 'queue' THEN queue
            WHEN 'batch_wait' THEN batch_wait
            WHEN 'prefill' THEN prefill
            WHEN 'decode' THEN decode
            WHEN 'preempted' THEN preempted
            WHEN 'return' THEN "return"
        END AS ns
    FROM phase_times
)
