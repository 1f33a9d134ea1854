-- Which answers lay ready and were not taken, and was everybody's way out so long meanwhile? Slow requests that spent a tenth of
-- their life or more between the last token and the last byte written; and of those who were answered in that time how
-- many, and how long in the middle (ns). Others are looked up by pieces of time as long as the longest wait.
WITH lived AS (
    SELECT
        *, returned - last_token AS ns,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS measured
    FROM attempt_times
    WHERE status = 'ok'
),
late AS (
    SELECT rid, request_id, coalesce(tenant, '') AS tenant, last_token, returned, ns
    FROM lived
    WHERE (measured > $edge::DOUBLE OR (measured = $edge::DOUBLE AND $at)) AND ns * 10 >= e2e_ns
    ORDER BY ns DESC, rid
    LIMIT 100
),
piece AS (SELECT max(ns) + 1 AS size FROM late),
waits AS (
    SELECT rid, last_token, returned, unnest(range(last_token // size, returned // size + 1)) AS piece FROM late, piece
),
answered AS (
    SELECT rid, last_token, returned, last_token // size AS piece
    FROM memory.main.requests, piece
    WHERE status = 'ok' AND returned IS NOT NULL
),
others AS (
    SELECT waits.rid, count(*) AS n, quantile_disc(answered.returned - answered.last_token, 0.5) AS middle
    FROM waits JOIN answered USING (piece)
    WHERE answered.last_token >= waits.last_token AND answered.last_token < waits.returned AND answered.rid <> waits.rid
    GROUP BY waits.rid
)
SELECT late.rid, request_id, tenant, ns, coalesce(n, 0) AS others, middle AS others_p50
FROM late
LEFT JOIN others USING (rid)
ORDER BY ns DESC, late.rid
