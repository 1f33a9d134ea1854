-- Every change of state that the playhead can step to: those of the workers, and every request's coming and going.
SELECT t, rid, kind, reason, coalesce(other_rid, -1) AS other_rid FROM events
UNION ALL
SELECT arrival, rid, 'arrival', NULL, -1 FROM requests
UNION ALL
SELECT returned, rid, 'returned', NULL, -1 FROM requests WHERE returned IS NOT NULL
ORDER BY t, rid, kind
