-- How much of the device's time did a request that came in a stretch use, in ns, from its share of each step (SPEC B9)?
-- Nearest rank; those that have no share are not in `n`.
SELECT
    count(device_ns) AS n,
    coalesce(sum(device_ns), 0)::BIGINT AS total_ns,
    avg(device_ns) AS mean_ns,
    quantile_disc(device_ns, 0.5) AS p50_ns,
    quantile_disc(device_ns, 0.99) AS p99_ns,
    max(device_ns) AS max_ns,
    coalesce(sum(recomputed_tokens), 0)::BIGINT AS recomputed_tokens,
    coalesce(sum(cached_tokens), 0)::BIGINT AS cached_tokens,
    coalesce(sum(prompt_tokens), 0)::BIGINT AS prompt_tokens
FROM requests
WHERE arrival BETWEEN $since AND $until AND ($worker::BIGINT IS NULL OR worker = $worker)
