-- How many passes of each kind touch a stretch of the run, how much of it do they fill, and how long is one? In ns;
-- quantiles are nearest rank, of whole passes. Without a worker: of all of them.
SELECT
    kind,
    count(*) AS passes,
    sum(least(t_end, $until) - greatest(t_sched, $since))::BIGINT AS ns,
    sum(t_end - t_sched)::DOUBLE / count(*) AS mean_ns,
    quantile_disc(t_end - t_sched, 0.5) AS p50_ns,
    quantile_disc(t_end - t_sched, 0.99) AS p99_ns,
    max(t_end - t_sched) AS max_ns,
    coalesce(sum(sum_prefill_tokens), 0)::BIGINT AS prefill_tokens,
    coalesce(sum(num_decode_requests), 0)::BIGINT AS decode_tokens,
    count(device_ns) AS device_passes
FROM steps
WHERE t_sched < $until AND (t_end > $since OR t_sched >= $since) AND ($worker::BIGINT IS NULL OR worker = $worker)
GROUP BY kind
ORDER BY ns DESC, kind
