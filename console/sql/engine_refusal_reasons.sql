-- Why were attempts that came in a stretch refused, and how often with an instant to come again?
SELECT
    coalesce(http_status, 0) AS http_status,
    coalesce(reason, '') AS reason,
    count(*) AS n,
    count(retry_after_ms) AS timed,
    quantile_disc(retry_after_ms, 0.5) AS retry_after_p50_ms
FROM requests
WHERE arrival BETWEEN $since AND $until AND status = 'rejected'
GROUP BY ALL
ORDER BY n DESC, http_status, reason
LIMIT 8
