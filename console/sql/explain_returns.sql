-- Which answers lay ready and were not taken, and was everybody's way out so long meanwhile? Slow requests that spent a tenth of
-- their life or more between the last token and the last byte written; and of those who were answered in that time how
-- many, and how long in the middle (ns).
WITH out AS (
    SELECT
        r.rid, r.attempt, r.request_id, coalesce(r.tenant, '') AS tenant, r.last_token, r.returned, l.e2e_ns,
        r.returned - r.last_token AS ns,
        CASE $measure WHEN 'ttft' THEN l.ttft_ns::DOUBLE WHEN 'tpot' THEN l.tpot_ns ELSE l.e2e_ns::DOUBLE END AS measured
    FROM memory.main.latency AS l
    JOIN memory.main.requests AS r USING (rid, attempt)
    WHERE l.status = 'ok' AND r.last_token IS NOT NULL AND r.returned IS NOT NULL
),
late AS (
    SELECT *
    FROM out
    SEMI JOIN requests USING (rid, attempt)
    WHERE (measured > $edge::DOUBLE OR (measured = $edge::DOUBLE AND $at)) AND ns * 10 >= e2e_ns
    ORDER BY ns DESC, rid
    LIMIT 100
)
SELECT
    late.rid, late.request_id, late.tenant, late.ns, count(others.rid) AS others,
    quantile_disc(others.ns, 0.5) AS others_p50
FROM late
LEFT JOIN out AS others
    ON others.last_token >= late.last_token AND others.last_token < late.returned AND others.rid <> late.rid
GROUP BY late.rid, late.request_id, late.tenant, late.ns
ORDER BY late.ns DESC, late.rid
