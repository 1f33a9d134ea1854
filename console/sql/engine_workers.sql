-- Which workers made passes, from when to when, and over how many KV blocks?
SELECT worker, min(t_sched) AS began, max(t_end) AS ended, max(kv_total) AS kv_total
FROM steps
GROUP BY worker
ORDER BY worker
