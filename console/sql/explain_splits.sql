-- Where did the prefix cache stop to hit, if it did? The split of the answered requests, in the order of arrival, $least or more
-- on each side, with the largest drop in the share of prompt tokens that were cached, by what it rests on: a split in the
-- middle of two stretches mixes them. `t` and `rid` are of the first request after it; NULL where nothing was ever cached.
WITH asked AS (
    SELECT arrival, rid, prompt_tokens AS tokens, coalesce(cached_tokens, 0) AS hits
    FROM memory.main.requests
    WHERE status = 'ok' AND prompt_tokens > 0
        AND (SELECT sum(cached_tokens) FROM memory.main.requests WHERE status = 'ok') > 0
),
whole AS (SELECT count(*) AS n, sum(tokens) AS tokens, sum(hits) AS hits FROM asked),
sums AS (
    SELECT
        arrival, rid, row_number() OVER so_far - 1 AS place,
        sum(tokens) OVER so_far - tokens AS tokens, sum(hits) OVER so_far - hits AS hits
    FROM asked
    WINDOW so_far AS (ORDER BY arrival, rid ROWS UNBOUNDED PRECEDING)
),
splits AS (
    SELECT
        arrival AS t, rid, place, n,
        sums.hits / sums.tokens AS before, (whole.hits - sums.hits) / (whole.tokens - sums.tokens) AS after
    FROM sums, whole
    WHERE place BETWEEN $least AND n - $least
)
SELECT unnest(arg_max({t: t, rid: rid, before: before, after: after}, (drop_by_weight, -place)))
FROM (SELECT *, (before - after) * (sqrt(place * (n - place)) / n) AS drop_by_weight FROM splits)
