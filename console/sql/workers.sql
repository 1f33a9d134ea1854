-- How did each worker spend its passes, in ns? Idle passes wait for work; of the others, what is not execution is
-- host time: planning before it and handing out after it.
SELECT
    worker,
    count(*) AS passes,
    count(*) FILTER (kind <> 'idle') AS steps,
    coalesce(sum(t_end - t_sched) FILTER (kind = 'idle'), 0)::BIGINT AS idle_ns,
    coalesce(sum(t_done - t_exec) FILTER (kind <> 'idle'), 0)::BIGINT AS execution_ns,
    coalesce(sum((t_exec - t_sched) + (t_end - t_done)) FILTER (kind <> 'idle'), 0)::BIGINT AS host_ns,
    coalesce(sum(sum_prefill_tokens), 0)::BIGINT AS prefill_tokens,
    coalesce(sum(num_decode_requests), 0)::BIGINT AS decode_tokens,
    max(waiting) AS max_waiting,
    max(running) AS max_running
FROM steps
GROUP BY worker
ORDER BY worker
