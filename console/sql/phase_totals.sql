-- How much time did the answered requests spend in each phase, in ns, and which share of their E2E is that?
WITH lived AS (
    SELECT
        sum(ingress) AS ingress, sum(queue) AS queue, sum(batch_wait) AS batch_wait, sum(prefill) AS prefill,
        sum(decode) AS decode, sum(preempted) AS preempted, sum("return") AS "return"
    FROM phase_times
    WHERE status = 'ok'
)
SELECT
    name, total::BIGINT AS total,
    total / nullif((SELECT sum(e2e_ns) FROM phase_times WHERE status = 'ok'), 0) AS share
FROM (UNPIVOT lived ON ingress, queue, batch_wait, prefill, decode, preempted, "return" INTO NAME name VALUE total)
ORDER BY total DESC, name
