-- What became of the requests of which an attempt came in a stretch and was refused first (SPEC B5)? Attempts belong
-- together by `retry_of`, or by the id that their client gave the request; `told` counts the requests with more than one.
WITH RECURSIVE came AS (SELECT * FROM requests WHERE arrival BETWEEN $since AND $until),
refused AS MATERIALIZED (
    SELECT rid, attempt, coalesce(request_id, '') AS id
    FROM came
    WHERE coalesce(http_status IN (429, 529), false) OR (http_status IS NULL AND status = 'rejected')
),
-- Only those with a refusal are followed: most requests are answered at once.
about AS MATERIALIZED (
    SELECT rid FROM refused
    UNION
    SELECT rid FROM came WHERE retry_of IS NOT NULL
    UNION
    SELECT came.rid FROM came SEMI JOIN (SELECT id FROM refused WHERE id <> '') AS named ON named.id = came.request_id
),
followed AS MATERIALIZED (
    SELECT
        came.rid, came.attempt, arrival, status, retry_of, refused.rid IS NOT NULL AS refused,
        first_value(came.rid) OVER (
            PARTITION BY CASE coalesce(request_id, '') WHEN '' THEN came.rid::VARCHAR ELSE request_id END
            ORDER BY arrival, came.rid
        ) AS family
    FROM came
    SEMI JOIN about ON about.rid = came.rid
    LEFT JOIN refused ON refused.rid = came.rid AND refused.attempt = came.attempt
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
    count(*) FILTER (refused_first) AS requests,
    coalesce(sum(attempts - 1) FILTER (refused_first), 0)::BIGINT AS retries,
    count(*) FILTER (refused_first AND attempts > 1) AS firsts,
    count(*) FILTER (refused_first AND second_ok) AS firsts_ok,
    count(*) FILTER (attempts > 1) AS told
FROM lives
