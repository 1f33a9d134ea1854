-- Which KV blocks were held for a client that had its answer already, or after the deadline that made it worthless, from
-- when until when? Blocks are those that came back at the end: at most as many were held before. When a client went away
-- unasked is not recorded, so what was held for it from then on can't be told.
WITH freed AS (
    SELECT rid, t, kind, freed_blocks
    FROM events
    WHERE freed_blocks > 0 AND kind <> 'preempted' AND t > $since AND ($worker::BIGINT IS NULL OR worker = $worker)
),
-- Who finishes is answered after its blocks came back: of those only a deadline is of interest.
late AS (
    SELECT rid, request_id, status, deadline, returned, first_scheduled
    FROM requests
    WHERE deadline IS NOT NULL AND deadline < coalesce(last_token, returned)
),
held AS (
    SELECT late.*, freed.t, freed.freed_blocks FROM freed JOIN late ON late.rid = freed.rid WHERE freed.kind = 'finished'
    UNION ALL
    SELECT whose.rid, request_id, status, deadline, returned, first_scheduled, freed.t, freed.freed_blocks
    FROM freed JOIN requests AS whose ON whose.rid = freed.rid
    WHERE freed.kind <> 'finished'
)
SELECT
    rid, request_id, status,
    CASE WHEN deadline <= coalesce(returned, deadline) THEN 'deadline' ELSE 'answered' END AS why,
    greatest(least(returned, deadline), first_scheduled) AS since,
    t AS until,
    freed_blocks AS blocks
FROM held
WHERE least(returned, deadline) IS NOT NULL
    AND t > greatest(least(returned, deadline), first_scheduled)
    AND greatest(least(returned, deadline), first_scheduled) < $until
ORDER BY since, rid
