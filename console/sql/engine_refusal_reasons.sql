-- Why were attempts that came in a stretch refused, and how often with an instant to come again? Numbers in which reasons
-- differ are left open: who waits as the 12th and who as the 13th had one reason.
SELECT
    coalesce(http_status, 0) AS http_status,
    if(min(said) = max(said), min(said), shape) AS reason,
    count(*) AS n,
    count(retry_after_ms) AS timed,
    quantile_disc(retry_after_ms, 0.5) AS retry_after_p50_ms
FROM (
    SELECT *, coalesce(reason, '') AS said, regexp_replace(said, '\d+(\.\d+)?', 'N', 'g') AS shape FROM requests
)
WHERE arrival BETWEEN $since AND $until AND status = 'rejected'
GROUP BY coalesce(http_status, 0), shape
ORDER BY n DESC, http_status, shape
LIMIT 8
