-- Who took part in the passes $first..$last of a worker.
SELECT step, rid, role, tokens, computed_before, cached
FROM slices
WHERE worker = $worker AND step BETWEEN $first AND $last
ORDER BY step, role = 'decode', rid
