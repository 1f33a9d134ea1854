-- Which answers lay ready and were not taken? Slow requests that spent a tenth of their life or more between the last token and
-- the last byte written (ns); the hundred longest.
WITH lived AS (
    SELECT
        rid, request_id, tenant, last_token, returned, e2e_ns, returned - last_token AS ns,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS measured
    FROM attempt_times
    WHERE status = 'ok'
)
SELECT rid, request_id, coalesce(tenant, '') AS tenant, last_token, returned, ns
FROM lived
WHERE (measured > $edge::DOUBLE OR (measured = $edge::DOUBLE AND $at)) AND ns * 10 >= e2e_ns
ORDER BY ns DESC, rid
LIMIT 100
