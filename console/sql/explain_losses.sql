-- Which workers served, which of them went, when, and with whom? An attempt went with its worker when it failed there at that
-- time or later; `again` are those whose request was answered by a later attempt.
WITH lost AS (SELECT worker, min(t) AS t FROM events WHERE kind = 'worker_lost' GROUP BY worker),
hit AS (
    SELECT lost.worker, r.rid, r.attempt, greatest(lost.t - r.arrival, 0) AS spent
    FROM lost
    JOIN memory.main.requests AS r ON r.worker = lost.worker AND r.status = 'failed' AND r.arrival <= lost.t
        AND coalesce(r.returned, lost.t) >= lost.t
),
answered AS (
    SELECT hit.rid, hit.attempt
    FROM hit
    JOIN memory.main.requests AS a ON a.status = 'ok' AND (a.retry_of = hit.rid OR (a.rid = hit.rid AND a.attempt > hit.attempt))
)
SELECT
    workers.worker, any_value(lost.t) AS t,
    count(hit.rid) AS hit,
    count(hit.rid) FILTER ((hit.rid, hit.attempt) IN (FROM answered)) AS again,
    coalesce(sum(spent), 0)::BIGINT AS spent_ns,
    min(hit.rid) AS example
FROM (
    SELECT worker FROM memory.main.requests WHERE worker IS NOT NULL
    UNION
    SELECT worker FROM lost WHERE worker IS NOT NULL
) AS workers
LEFT JOIN lost USING (worker)
LEFT JOIN hit USING (worker)
GROUP BY workers.worker
ORDER BY t, workers.worker
