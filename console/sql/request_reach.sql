-- In which passes did one attempt take part? The first and the last, on the worker that served it (NULL: on any). Only
-- passes of its life, [$since, $until), are looked at: they name few of the parts that slices are kept in.
WITH lived AS (
    SELECT worker, min(step) AS low, max(step) AS high
    FROM steps
    WHERE worker = coalesce($worker, worker) AND t_end > $since AND t_sched < $until
    GROUP BY worker
)
SELECT slices.worker, min(slices.step) AS first, max(slices.step) AS last
FROM slices
JOIN lived ON lived.worker = slices.worker AND slices.step BETWEEN lived.low AND lived.high
WHERE slices.rid = $rid
GROUP BY slices.worker
ORDER BY first, slices.worker
LIMIT 1
