-- Who got no answer, and what were they told? By state, code and reason (numbers in it left open, so that who waits as
-- the 12th and who as the 13th had one reason); the wait that they were asked for, in ms, its middle over the whole state.
SELECT
    status, http_status, regexp_replace(coalesce(reason, ''), '\d+(\.\d+)?', 'N', 'g') AS reason, count(*) AS n,
    count(retry_after_ms) AS told,
    min(retry_after_ms) AS retry_min, any_value(middle) AS retry_p50, max(retry_after_ms) AS retry_max,
    min(rid) AS example
FROM requests
JOIN (SELECT status, quantile_disc(retry_after_ms, 0.5) AS middle FROM requests GROUP BY status) USING (status)
WHERE status NOT IN ('ok', 'open')
GROUP BY ALL
ORDER BY n DESC, status, reason
