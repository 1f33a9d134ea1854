-- How full was each worker? Of its time, the share that it had nothing to do, and that somebody waited; the most that ran and
-- waited at once; the fewest free blocks.
SELECT
    worker,
    sum(t_end - t_sched) FILTER (kind = 'idle') / sum(t_end - t_sched) AS idle_share,
    sum(t_end - t_sched) FILTER (waiting > 0) / sum(t_end - t_sched) AS waiting_share,
    max(waiting) AS waiting_max,
    max(running) AS running_max,
    min(kv_free) AS kv_free_min,
    max(kv_total) AS kv_total
FROM steps
GROUP BY worker
HAVING sum(t_end - t_sched) > 0
ORDER BY worker
