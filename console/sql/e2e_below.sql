-- How many of the answered requests took less than each of these times? $edges is a list of ns, all of them different.
WITH counted AS (
    SELECT histogram(e2e_ns, list_transform($edges::BIGINT[], lambda edge: edge - 1)) AS at_most
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
sums AS (
    SELECT most, sum(n) OVER (ORDER BY most)::BIGINT AS below
    FROM (SELECT unnest(map_keys(at_most)) AS most, unnest(map_values(at_most)) AS n FROM counted)
)
SELECT edge, below
FROM sums JOIN (SELECT unnest($edges::BIGINT[]) AS edge) ON most = edge - 1
ORDER BY edge
