-- Who got no answer, and what were they told? By state, code and reason; the wait that they were asked for, in ms, its
-- middle over the whole state. Numbers in which reasons differ are left open: who waits as the 12th and who as the 13th
-- had one reason.
WITH refused AS (
    SELECT *, coalesce(reason, '') AS said, regexp_replace(said, '\d+(\.\d+)?', 'N', 'g') AS shape
    FROM requests
    WHERE status NOT IN ('ok', 'open')
)
SELECT
    status, http_status, if(min(said) = max(said), min(said), shape) AS reason, count(*) AS n,
    count(retry_after_ms) AS told,
    min(retry_after_ms) AS retry_min, any_value(middle) AS retry_p50, max(retry_after_ms) AS retry_max,
    min(rid) AS example
FROM refused
JOIN (SELECT status, quantile_disc(retry_after_ms, 0.5) AS middle FROM refused GROUP BY status) USING (status)
GROUP BY status, http_status, shape
ORDER BY n DESC, status, shape
