-- Which attempts does somebody mean by an id? The one the client knows first; else the number in the run.
SELECT rid, attempt, request_id, status, arrival
FROM requests
WHERE request_id = $id OR rid = $rid
ORDER BY request_id = $id DESC, arrival, attempt
