-- What did the slow and the typical answered requests ask for, and beside how many others? Sums, so that
-- means are exact. `decodes` are the tokens after the first, which is what a decode step gives.
WITH lived AS (
    SELECT
        rid, attempt, e2e_ns,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
sided AS (
    SELECT
        rid, attempt, e2e_ns,
        CASE WHEN ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at) THEN 'slow' ELSE 'typical' END AS cohort
    FROM lived
    WHERE ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at) OR ns BETWEEN $low::DOUBLE AND $high::DOUBLE
)
SELECT
    cohort,
    count(*) AS n,
    sum(e2e_ns)::BIGINT AS e2e_ns,
    coalesce(sum(prompt_tokens), 0)::BIGINT AS prompt_tokens,
    coalesce(sum(cached_tokens), 0)::BIGINT AS cached_tokens,
    coalesce(sum(output_tokens), 0)::BIGINT AS output_tokens,
    coalesce(sum(greatest(output_tokens - 1, 0)), 0)::BIGINT AS decodes,
    avg(running) AS running
FROM sided
JOIN requests USING (rid, attempt)
GROUP BY cohort
ORDER BY cohort
