-- Which attempts belong together? Those of the same id, and those that one retries or that retry it, oldest first. The chain
-- is followed in the few rows that retry one. The family is made a list: so few are looked up in many, and not many in few.
WITH RECURSIVE tries AS MATERIALIZED (
    SELECT rid, retry_of FROM requests WHERE retry_of IS NOT NULL
),
family AS (
    (SELECT $rid::BIGINT AS rid UNION ALL SELECT rid FROM requests WHERE request_id = nullif($id, ''))
    UNION
    SELECT CASE WHEN tries.rid = family.rid THEN tries.retry_of ELSE tries.rid END
    FROM tries
    JOIN family ON tries.rid = family.rid OR tries.retry_of = family.rid
)
SELECT
    rid, attempt, request_id, retry_of, worker, status, http_status, reason, retry_after_ms, arrival, returned,
    returned - arrival AS e2e_ns, output_tokens
FROM requests
JOIN (SELECT unnest(list(rid)) AS rid FROM family) AS few USING (rid)
ORDER BY arrival, attempt, rid
