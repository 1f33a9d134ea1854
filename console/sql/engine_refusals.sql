-- How many attempts came in a stretch, how many were refused (429, 529), how many of those with an instant to come again
-- (SPEC B5), and how many of all say that they come after another one?
SELECT
    count(*) AS attempts,
    count(*) FILTER (refused) AS refused,
    count(retry_after_ms) FILTER (refused) AS timed,
    count(retry_of) AS again
FROM (
    SELECT *, coalesce(http_status IN (429, 529), false) OR (http_status IS NULL AND status = 'rejected') AS refused
    FROM requests
    WHERE arrival BETWEEN $since AND $until
)
