-- How much did answered requests lose to one cause, in ns, how many kept its limit, and who lost most beyond it? A name
-- without `/` stands for all causes below it. Whoever lost nothing to a cause has kept its limit.
WITH lived AS (
    SELECT
        request_id,
        coalesce(list_sum([*COLUMNS(
            lambda name: (name = $cause OR starts_with(name, $cause || '/')) AND NOT contains(name, ' ')
        )]), 0)::BIGINT AS ns
    FROM attempt_times
    WHERE status = 'ok'
),
worst AS (SELECT request_id, ns FROM lived WHERE ns > $limit_ns::BIGINT ORDER BY ns DESC, request_id LIMIT 3),
times AS (
    SELECT
        count(ns) AS n,
        count(ns) FILTER (ns <= $limit_ns::BIGINT) AS inside,
        quantile_disc(ns, [0.5, 0.95, 0.99]) AS ranks,
        max(ns) AS max
    FROM lived
)
SELECT
    n, inside, ranks[1] AS p50, ranks[2] AS p95, ranks[3] AS p99, max,
    coalesce((SELECT list({'request_id': request_id, 'ns': ns} ORDER BY ns DESC, request_id) FROM worst), []) AS worst
FROM times
