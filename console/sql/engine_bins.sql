-- What did the workers do in each of `$bins` equal parts of a stretch, by kind of pass and by why the head of the queue
-- was kept waiting? A pass over several parts counts in each with the time that it has there; `..._time` are amounts
-- times ns, so that means over time can be made of any of these rows together.
WITH passes AS (
    SELECT
        *,
        greatest((t_sched - $since) * $bins // ($until - $since), 0) AS first_bin,
        least((greatest(t_end - 1, t_sched) - $since) * $bins // ($until - $since), $bins - 1) AS last_bin
    FROM steps
    WHERE t_sched < $until AND (t_end > $since OR t_sched >= $since) AND ($worker::BIGINT IS NULL OR worker = $worker)
),
pieces AS (
    SELECT
        *,
        $since + (bin * ($until - $since) + $bins - 1) // $bins AS low,
        $since + ((bin + 1) * ($until - $since) + $bins - 1) // $bins AS high
    FROM (SELECT *, unnest(range(first_bin, last_bin + 1)) AS bin FROM passes)
),
timed AS (
    SELECT
        *,
        least(t_end, high) - greatest(t_sched, low) AS ns,
        greatest(least(t_done, high) - greatest(t_exec, low), 0) AS exec_ns,
        greatest(least(t_exec, high) - greatest(t_sched, low), 0) AS sched_ns,
        greatest(least(t_end, high) - greatest(t_done, low), 0) AS post_ns
    FROM pieces
)
SELECT
    worker,
    bin,
    kind,
    coalesce(head_reason, 'NONE') AS reason,
    sum(ns)::BIGINT AS ns,
    sum(exec_ns)::BIGINT AS exec_ns,
    sum(sched_ns)::BIGINT AS sched_ns,
    sum(post_ns)::BIGINT AS post_ns,
    coalesce(sum(device_ns * exec_ns::DOUBLE / nullif(t_done - t_exec, 0)), 0)::DOUBLE AS device_ns,
    sum((coalesce(num_prefill_requests, 0) + coalesce(num_decode_requests, 0))::DOUBLE * ns) AS batch_time,
    sum(coalesce(sum_prefill_tokens, 0)::DOUBLE * ns) AS prefill_time,
    sum(coalesce(num_decode_requests, 0)::DOUBLE * ns) AS decode_time,
    sum(coalesce(running, 0)::DOUBLE * ns) AS running_time,
    sum(coalesce(waiting, 0)::DOUBLE * ns) AS waiting_time,
    sum(coalesce(kv_total - kv_free, 0)::DOUBLE * ns) AS held_time,
    max(coalesce(num_prefill_requests, 0) + coalesce(num_decode_requests, 0)) AS batch_max,
    max(coalesce(sum_prefill_tokens, 0) + coalesce(num_decode_requests, 0)) AS tokens_max,
    max(waiting) AS waiting_max,
    max(running) AS running_max,
    max(kv_total - kv_free) AS held_max,
    max(kv_free) AS free_max,
    max(kv_total) AS kv_total
FROM timed
GROUP BY worker, bin, kind, reason
ORDER BY worker, bin, kind, reason
