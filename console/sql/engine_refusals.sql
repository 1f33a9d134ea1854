-- How many attempts came in a stretch, how many were refused (429, 529) and how many of those with an instant to come
-- again; and what became of the requests that were refused first (SPEC B5)? Attempts belong together by `retry_of`, or by
-- the id that their client gave the request; `told` counts the requests with more than one.
WITH RECURSIVE came AS (
    SELECT
        rid, attempt, coalesce(request_id, '') AS id, arrival, status, retry_of, retry_after_ms,
        coalesce(http_status IN (429, 529), false) OR (http_status IS NULL AND status = 'rejected') AS refused
    FROM requests
    WHERE arrival BETWEEN $since AND $until
),
-- Only those with a refusal are followed: most requests are answered at once.
followed AS (
    SELECT *, first_value(rid) OVER (PARTITION BY CASE id WHEN '' THEN rid::VARCHAR ELSE id END ORDER BY arrival, rid)
        AS family
    FROM came
    WHERE refused OR retry_of IS NOT NULL OR id IN (SELECT id FROM came WHERE refused AND id <> '')
),
up AS (
    SELECT rid, retry_of AS root, 1 AS depth FROM followed WHERE retry_of IS NOT NULL
    UNION ALL
    SELECT up.rid, above.retry_of, up.depth + 1
    FROM up JOIN followed AS above ON above.rid = up.root
    WHERE above.retry_of IS NOT NULL AND up.depth < 100
),
roots AS (SELECT rid, arg_max(root, depth) AS root FROM up GROUP BY rid),
placed AS (
    SELECT
        followed.*,
        coalesce(roots.root, family) AS request,
        row_number() OVER (PARTITION BY coalesce(roots.root, family) ORDER BY arrival, followed.rid, attempt) AS place
    FROM followed LEFT JOIN roots ON roots.rid = followed.rid
),
lives AS (
    SELECT
        request,
        count(*) AS attempts,
        coalesce(bool_or(refused) FILTER (place = 1), false) AS refused_first,
        coalesce(bool_or(status = 'ok') FILTER (place = 2), false) AS second_ok
    FROM placed
    GROUP BY request
)
SELECT
    (SELECT count(*) FROM came) AS attempts,
    (SELECT count(*) FROM came WHERE refused) AS refused,
    (SELECT count(retry_after_ms) FROM came WHERE refused) AS timed,
    count(*) FILTER (refused_first) AS requests,
    coalesce(sum(attempts - 1) FILTER (refused_first), 0)::BIGINT AS retries,
    count(*) FILTER (refused_first AND attempts > 1) AS firsts,
    count(*) FILTER (refused_first AND second_ok) AS firsts_ok,
    count(*) FILTER (attempts > 1) AS told
FROM lives
