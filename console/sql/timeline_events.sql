-- Every change of state that the workers told of, in no order. Requests come and go besides, by their own stamps.
SELECT t, coalesce(rid, -1) AS rid, kind, reason, coalesce(other_rid, -1) AS other_rid
FROM events
WHERE t IS NOT NULL
