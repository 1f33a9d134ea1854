-- How long was each lane in $phase, in ns? In the order of the lanes.
SELECT coalesce(
    CASE $phase
        WHEN 'ingress' THEN ingress
        WHEN 'queue' THEN queue
        WHEN 'batch_wait' THEN batch_wait
        WHEN 'prefill' THEN prefill
        WHEN 'decode' THEN decode
        WHEN 'preempted' THEN preempted
        WHEN 'return' THEN "return"
    END,
    0
) AS ns
FROM phase_times
ORDER BY arrival NULLS FIRST, rid, attempt
