-- Which KV blocks were held for a client that had its answer already, or after the deadline that made it worthless, from
-- when until when? Blocks are those that came back at the end: at most as many were held before. When a client went away
-- unasked is not recorded, so what was held for it from then on can't be told.
WITH gone AS (
    SELECT rid, request_id, status, least(returned, deadline) AS since, returned, deadline
    FROM requests
    WHERE least(returned, deadline) IS NOT NULL
)
SELECT
    gone.rid, gone.request_id, gone.status,
    CASE WHEN gone.deadline <= coalesce(gone.returned, gone.deadline) THEN 'deadline' ELSE 'answered' END AS why,
    gone.since,
    freed.t AS until,
    freed.freed_blocks AS blocks
FROM events AS freed
JOIN gone ON gone.rid = freed.rid
WHERE freed.freed_blocks > 0 AND freed.kind <> 'preempted' AND freed.t > gone.since
    AND freed.t > $since AND gone.since < $until AND ($worker::BIGINT IS NULL OR freed.worker = $worker)
ORDER BY gone.since, gone.rid
