-- Through whom did the slow and the typical answered requests lose time, in ns? One row for a cause, its root, and who is behind
-- it (the view `blames`). Of the cohort $named the $most who are behind most of it are told apart, the others are a row
-- without a culprit: `culprits` says how many they are. Whoever computed $long tokens of its prompt or more is apart from those
-- who did not, and whoever found less than half of the share $hit of it in the cache; of the other cohort only these are told.
WITH lived AS (
    SELECT
        rid, attempt,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
sided AS NOT MATERIALIZED (
    SELECT
        rid, attempt,
        CASE WHEN ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at) THEN 'slow' ELSE 'typical' END AS cohort
    FROM lived
    WHERE ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at) OR ns BETWEEN $low::DOUBLE AND $high::DOUBLE
),
told AS NOT MATERIALIZED (
    SELECT
        rid, attempt, cause, root, culprit, ns,
        coalesce(prompt_tokens - cached_tokens >= $long::BIGINT, false) AS long,
        coalesce(2 * cached_tokens < $hit::DOUBLE * prompt_tokens, false) AS missed
    FROM blames
),
named AS (
    SELECT cohort, cause, root, long, missed, culprit, sum(ns)::BIGINT AS ns
    FROM told JOIN (SELECT * FROM sided WHERE cohort = $named) USING (rid, attempt)
    GROUP BY ALL
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY cause, root, long, missed ORDER BY ns DESC, culprit) AS place FROM named
)
SELECT
    cohort, cause, root, long, missed, CASE WHEN place <= $most THEN culprit END AS culprit,
    count(*) AS culprits, sum(ns)::BIGINT AS ns
FROM ranked
GROUP BY ALL
UNION ALL
SELECT cohort, cause, root, long, missed, NULL, count(DISTINCT culprit), sum(ns)::BIGINT
FROM (SELECT * FROM told WHERE long OR missed) JOIN (SELECT * FROM sided WHERE cohort <> $named) USING (rid, attempt)
GROUP BY ALL
ORDER BY ALL
