-- Who are these requests? $rids is a list of numbers; of several attempts the last.
SELECT DISTINCT ON (rid)
    rid, coalesce(request_id, '') AS request_id, coalesce(prompt_tokens, 0) AS prompt_tokens
FROM memory.main.requests
SEMI JOIN (SELECT unnest($rids::BIGINT[]) AS rid) USING (rid)
ORDER BY rid, attempt DESC
