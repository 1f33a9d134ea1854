-- What happened to one request, in order, and through whom?
SELECT t, worker, step, kind, other_rid, reason, lost_tokens, freed_blocks
FROM events
WHERE rid = $rid
ORDER BY t, step, kind
