-- In which phases did the answered requests spend their time, in ns? An answered request that never was in a phase
-- counts there with 0, so percentiles of different phases are over the same requests.
WITH lived AS (
    SELECT
        {
            'n': count(ingress),
            'q': quantile_disc(coalesce(ingress, 0), [0.5, 0.95, 0.99]) FILTER (status = 'ok'),
            'total': sum(ingress) FILTER (status = 'ok')
        } AS ingress,
        {
            'n': count(queue),
            'q': quantile_disc(coalesce(queue, 0), [0.5, 0.95, 0.99]) FILTER (status = 'ok'),
            'total': sum(queue) FILTER (status = 'ok')
        } AS queue,
        {
            'n': count(batch_wait),
            'q': quantile_disc(coalesce(batch_wait, 0), [0.5, 0.95, 0.99]) FILTER (status = 'ok'),
            'total': sum(batch_wait) FILTER (status = 'ok')
        } AS batch_wait,
        {
            'n': count(prefill),
            'q': quantile_disc(coalesce(prefill, 0), [0.5, 0.95, 0.99]) FILTER (status = 'ok'),
            'total': sum(prefill) FILTER (status = 'ok')
        } AS prefill,
        {
            'n': count(decode),
            'q': quantile_disc(coalesce(decode, 0), [0.5, 0.95, 0.99]) FILTER (status = 'ok'),
            'total': sum(decode) FILTER (status = 'ok')
        } AS decode,
        {
            'n': count(preempted),
            'q': quantile_disc(coalesce(preempted, 0), [0.5, 0.95, 0.99]) FILTER (status = 'ok'),
            'total': sum(preempted) FILTER (status = 'ok')
        } AS preempted,
        {
            'n': count("return"),
            'q': quantile_disc(coalesce("return", 0), [0.5, 0.95, 0.99]) FILTER (status = 'ok'),
            'total': sum("return") FILTER (status = 'ok')
        } AS "return"
    FROM phase_times
)
SELECT
    name,
    it.q[1] AS p50,
    it.q[2] AS p95,
    it.q[3] AS p99,
    coalesce(it.total, 0)::BIGINT AS total,
    coalesce(it.total, 0) / nullif((SELECT sum(e2e_ns) FROM phase_times WHERE status = 'ok'), 0) AS share
FROM (UNPIVOT lived ON ingress, queue, batch_wait, prefill, decode, preempted, "return" INTO NAME name VALUE it)
WHERE it.n > 0 AND it.q IS NOT NULL
ORDER BY total DESC, name
