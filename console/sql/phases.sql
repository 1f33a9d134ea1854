-- In which phases did the answered requests spend their time, in ns? An answered request that never was in a phase
-- counts there with 0, so percentiles of different phases are over the same requests.
WITH lived AS (
    SELECT
        {'q': quantile_disc(coalesce(ingress, 0), [0.5, 0.95, 0.99]), 'total': sum(ingress)} AS ingress,
        {'q': quantile_disc(coalesce(queue, 0), [0.5, 0.95, 0.99]), 'total': sum(queue)} AS queue,
        {'q': quantile_disc(coalesce(batch_wait, 0), [0.5, 0.95, 0.99]), 'total': sum(batch_wait)} AS batch_wait,
        {'q': quantile_disc(coalesce(prefill, 0), [0.5, 0.95, 0.99]), 'total': sum(prefill)} AS prefill,
        {'q': quantile_disc(coalesce(decode, 0), [0.5, 0.95, 0.99]), 'total': sum(decode)} AS decode,
        {'q': quantile_disc(coalesce(preempted, 0), [0.5, 0.95, 0.99]), 'total': sum(preempted)} AS preempted,
        {'q': quantile_disc(coalesce("return", 0), [0.5, 0.95, 0.99]), 'total': sum("return")} AS "return"
    FROM phase_times
    WHERE status = 'ok'
)
SELECT
    name,
    it.q[1] AS p50,
    it.q[2] AS p95,
    it.q[3] AS p99,
    it.total::BIGINT AS total,
    it.total / nullif((SELECT sum(e2e_ns) FROM phase_times WHERE status = 'ok'), 0) AS share
FROM (UNPIVOT lived ON ingress, queue, batch_wait, prefill, decode, preempted, "return" INTO NAME name VALUE it)
WHERE it.total IS NOT NULL
ORDER BY total DESC, name
