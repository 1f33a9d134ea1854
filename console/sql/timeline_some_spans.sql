-- The phases of the attempts $rids, $attempts, which are the lanes $lanes, in the order of lane and of time.
WITH wanted AS (
    SELECT unnest($lanes::BIGINT[]) AS lane, unnest($rids::BIGINT[]) AS rid, unnest($attempts::BIGINT[]) AS attempt
)
SELECT wanted.lane, spans.name, spans.start, spans."end"
FROM spans
JOIN wanted USING (rid, attempt)
WHERE spans.rid BETWEEN list_min($rids::BIGINT[]) AND list_max($rids::BIGINT[])
ORDER BY wanted.lane, spans.start, spans."end"
