-- The phases of every attempt, in the order of its lane and of time. An attempt that has no spans (yet) gets the ones
-- that its own stamps and events prove, so that open, cancelled and failed requests show what they lived through.
WITH seen AS (
    SELECT
        rid,
        min(t) FILTER (kind = 'queued') AS queued,
        min(t) FILTER (kind = 'scheduled') AS scheduled,
        min(t) FILTER (kind = 'first_token') AS first_token,
        max(t) FILTER (kind IN ('finished', 'cancelled', 'failed')) AS gone
    FROM events
    GROUP BY rid
),
bare AS (
    SELECT
        r.rid, r.attempt, r.arrival,
        coalesce(r.queued, seen.queued) AS queued,
        coalesce(r.first_scheduled, seen.scheduled) AS scheduled,
        coalesce(r.first_token, seen.first_token) AS first_token,
        coalesce(r.last_token, seen.gone) AS gone,
        coalesce(r.returned, CASE WHEN r.status = 'open' THEN $high END, r.last_token, seen.gone, r.arrival) AS finish
    FROM requests AS r
    LEFT JOIN seen USING (rid)
    ANTI JOIN spans USING (rid, attempt)
    WHERE r.status <> 'rejected'
),
derived AS (
    SELECT rid, attempt, 'ingress' AS name, arrival AS start, coalesce(queued, gone, finish) AS "end" FROM bare
    UNION ALL
    SELECT rid, attempt, 'queue', queued, coalesce(scheduled, gone, finish) FROM bare
    UNION ALL
    SELECT rid, attempt, 'prefill', scheduled, coalesce(first_token, gone, finish) FROM bare
    UNION ALL
    SELECT rid, attempt, 'decode', first_token, coalesce(gone, finish) FROM bare
    UNION ALL
    SELECT rid, attempt, 'return', gone, finish FROM bare
),
lanes AS (
    SELECT rid, attempt, row_number() OVER (ORDER BY arrival NULLS FIRST, rid, attempt) - 1 AS lane FROM requests
)
SELECT lanes.lane, phases.name, phases.start, phases."end"
FROM (
    SELECT rid, attempt, name, start, "end" FROM spans
    UNION ALL
    SELECT * FROM derived WHERE "end" > start
) AS phases
JOIN lanes USING (rid, attempt)
ORDER BY lanes.lane, phases.start, phases."end"
