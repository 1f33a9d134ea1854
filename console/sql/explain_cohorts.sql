-- What did the slow and the typical answered requests ask for, beside how many others, and what was their time made of? Sums, so
-- that means are exact. `decodes` are the tokens after the first, which is what a decode step gives. $spent are columns of
-- `attempt_times`: the causes that there are, those that may have any root by root.
WITH lived AS (
    SELECT
        *, CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM attempt_times
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
sided AS (
    SELECT
        CASE WHEN ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at) THEN 'slow' ELSE 'typical' END AS cohort,
        e2e_ns, prompt_tokens, cached_tokens, output_tokens, running,
        COLUMNS(lambda name: list_contains($spent::VARCHAR[], name))
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
    avg(running) AS running,
    coalesce(sum(COLUMNS(lambda name: list_contains($spent::VARCHAR[], name))), 0)::BIGINT
FROM sided
GROUP BY cohort
ORDER BY cohort
