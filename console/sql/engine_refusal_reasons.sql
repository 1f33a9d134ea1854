-- Why were attempts that came in a stretch refused, and how often with an instant to come again? Numbers in a reason are
-- left open, so that who waits as the 12th and who as the 13th had one reason.
SELECT
    coalesce(http_status, 0) AS http_status,
    regexp_replace(coalesce(reason, ''), '\d+(\.\d+)?', 'N', 'g') AS reason,
    count(*) AS n,
    count(retry_after_ms) AS timed,
    quantile_disc(retry_after_ms, 0.5) AS retry_after_p50_ms
FROM requests
WHERE arrival BETWEEN $since AND $until AND status = 'rejected'
GROUP BY ALL
ORDER BY n DESC, http_status, reason
LIMIT 8
