-- How many slow requests lost a tenth of their E2E or more to each cause?
WITH lived AS (
    SELECT
        rid, attempt, e2e_ns,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
lost AS (
    SELECT rid, attempt, any_value(e2e_ns) AS e2e_ns, cause, sum(causes.ns) AS lost_ns
    FROM lived JOIN causes USING (rid, attempt)
    WHERE lived.ns > $edge::DOUBLE OR (lived.ns = $edge::DOUBLE AND $at)
    GROUP BY rid, attempt, cause
)
SELECT cause, count(*) AS n
FROM lost
WHERE lost_ns * 10 >= e2e_ns
GROUP BY cause
ORDER BY n DESC, cause
