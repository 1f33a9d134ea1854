-- What changed of requests and workers in a stretch, and why: how often, tokens thrown away, KV blocks given back?
WITH counted AS (
    SELECT kind, reason, count(*) AS n, sum(lost_tokens) AS lost_tokens, sum(freed_blocks) AS freed_blocks
    FROM events
    WHERE t BETWEEN $since AND $until AND ($worker::BIGINT IS NULL OR worker = $worker)
    GROUP BY kind, reason
)
SELECT
    kind,
    coalesce(reason, 'NONE') AS reason,
    sum(n)::BIGINT AS n,
    coalesce(sum(lost_tokens), 0)::BIGINT AS lost_tokens,
    coalesce(sum(freed_blocks), 0)::BIGINT AS freed_blocks
FROM counted
GROUP BY ALL
ORDER BY kind, reason
