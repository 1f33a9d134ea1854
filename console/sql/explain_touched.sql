-- How many slow requests lost a tenth of their E2E or more to each cause? $causes are those that there are.
WITH lived AS (
    SELECT
        *, CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS measured
    FROM attempt_times
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
slow AS (
    SELECT e2e_ns, COLUMNS(lambda name: list_contains($causes::VARCHAR[], name))
    FROM lived
    WHERE measured > $edge::DOUBLE OR (measured = $edge::DOUBLE AND $at)
)
SELECT cause, count(*) AS n
FROM (UNPIVOT slow ON COLUMNS(* EXCLUDE (e2e_ns)) INTO NAME cause VALUE ns)
WHERE ns * 10 >= e2e_ns
GROUP BY cause
ORDER BY n DESC, cause
