-- How much time did answered requests spend, in all, by phase and by cause, in ns? By cohort: `slow` are those beyond $edge of
-- the measure, and at it where $at says so; `typical` lie between $low and $high and are not slow (SPEC F3). Where there is no
-- $edge they are one cohort, `all`. Causes sum to the row `e2e`; so do phases, where spans tile all lives (SPEC F1).
WITH lived AS (
    SELECT
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns,
        e2e_ns AS "E2E",
        COLUMNS('^(phase .+|[A-Z_/]+)$')
    FROM attempt_times
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
members AS (
    SELECT
        CASE
            WHEN $edge::DOUBLE IS NULL THEN 'all'
            WHEN ns > $edge::DOUBLE OR ($at AND ns = $edge::DOUBLE) THEN 'slow'
            WHEN ns BETWEEN $low::DOUBLE AND $high::DOUBLE THEN 'typical'
        END AS cohort,
        * EXCLUDE ns
    FROM lived
),
summed AS (
    SELECT cohort, count(*) AS n, sum(COLUMNS(* EXCLUDE cohort))::BIGINT
    FROM members
    WHERE cohort IS NOT NULL
    GROUP BY cohort
)
SELECT
    cohort,
    CASE WHEN name = 'E2E' THEN 'e2e' WHEN starts_with(name, 'phase ') THEN 'phase' ELSE 'cause' END AS kind,
    replace(name, 'phase ', '') AS name,
    ns,
    n,
    name NOT IN ('STALLED_BY_PREFILL', 'HOST_WARMUP') AS measured
FROM (UNPIVOT summed ON COLUMNS(* EXCLUDE (cohort, n)) INTO NAME name VALUE ns)
ORDER BY ALL
