-- Who got no answer, and what were they told? By state, code and reason; the wait that they were asked for, in ms.
SELECT
    status, http_status, coalesce(reason, '') AS reason, count(*) AS n,
    count(retry_after_ms) AS told,
    min(retry_after_ms) AS retry_min, quantile_disc(retry_after_ms, 0.5) AS retry_p50, max(retry_after_ms) AS retry_max,
    min(rid) AS example
FROM requests
WHERE status NOT IN ('ok', 'open')
GROUP BY ALL
ORDER BY n DESC, status, reason
