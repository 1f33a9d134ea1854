-- Which attempts belong together? Those of the same id, and those that one retries or that retry it, oldest first.
WITH RECURSIVE family AS (
    SELECT rid, request_id, retry_of FROM requests WHERE rid = $rid
    UNION
    SELECT r.rid, r.request_id, r.retry_of
    FROM requests AS r
    JOIN family AS f
        ON r.retry_of = f.rid OR r.rid = f.retry_of OR (r.request_id = f.request_id AND f.request_id <> '')
)
SELECT
    rid, attempt, request_id, retry_of, worker, status, http_status, reason, retry_after_ms, arrival, returned,
    returned - arrival AS e2e_ns, output_tokens
FROM requests
SEMI JOIN family USING (rid)
ORDER BY arrival, attempt, rid
