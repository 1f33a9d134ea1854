-- Was everybody's way out so long while these answers lay ready? Of each of $rids, ready from $since to $until, the others that
-- were answered in that time: how many, and how long their way out was in the middle (ns). They are looked up by pieces of
-- time as long as the longest wait.
WITH late AS (
    SELECT unnest($rids::BIGINT[]) AS rid, unnest($since::BIGINT[]) AS since, unnest($until::BIGINT[]) AS until
),
piece AS (SELECT max(until - since) + 1 AS size FROM late),
waits AS (SELECT rid, since, until, unnest(range(since // size, until // size + 1)) AS piece FROM late, piece),
answered AS (
    SELECT rid, last_token, returned, last_token // size AS piece
    FROM memory.main.requests, piece
    WHERE status = 'ok' AND returned IS NOT NULL
)
SELECT waits.rid, count(*) AS others, quantile_disc(answered.returned - last_token, 0.5) AS others_p50
FROM waits JOIN answered USING (piece)
WHERE last_token >= since AND last_token < until AND answered.rid <> waits.rid
GROUP BY waits.rid
ORDER BY waits.rid
