-- Every pass of every worker, in order. What is not known is 0 where it is a count; stamps are always known. Where
-- nobody measured how long the device was busy, it is NULL, and 0 in a pass that had nothing to execute.
SELECT
    worker, step, t_sched, t_exec, t_done, t_end, kind,
    coalesce(num_prefill_requests, 0) AS prefills, coalesce(sum_prefill_tokens, 0) AS prefill_tokens,
    coalesce(num_decode_requests, 0) AS decodes,
    coalesce(waiting, 0) AS waiting, coalesce(running, 0) AS running,
    coalesce(kv_total - kv_free, 0) AS kv_used, coalesce(kv_total, 0) AS kv_total,
    coalesce(head_rid, -1) AS head_rid, head_reason,
    CASE WHEN kind = 'idle' THEN 0 ELSE device_ns END AS device_ns
FROM steps
ORDER BY worker, t_sched, step
