-- When did the workers say that the requests $rids had gone? By number of the request.
SELECT rid, max(t) AS t
FROM events
WHERE kind IN ('finished', 'cancelled', 'failed', 'rejected') AND rid IN (SELECT unnest($rids::BIGINT[]))
GROUP BY rid
ORDER BY rid
