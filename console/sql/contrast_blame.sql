-- How many of the chosen attempts and of the others lost most of their time to which cause, and to which request, of which
-- tier and with how long a prompt? Without a culprit the words are empty. Words beyond the most frequent are NULL
-- together. `chosen` holds `rid, attempt, inside` of those that are compared.
WITH of_chosen AS (
    SELECT rid, attempt, cause, culprit, sum(ns)::BIGINT AS ns
    FROM causes SEMI JOIN chosen USING (rid, attempt)
    GROUP BY ALL
),
by_cause AS (
    SELECT rid, attempt, arg_max(cause, ns) AS cause
    FROM (SELECT rid, attempt, cause, sum(ns) AS ns FROM of_chosen GROUP BY ALL)
    GROUP BY rid, attempt
),
by_culprit AS (
    SELECT rid, attempt, arg_max(culprit, ns) AS culprit
    FROM (SELECT rid, attempt, culprit, sum(ns) AS ns FROM of_chosen WHERE culprit IS NOT NULL GROUP BY ALL)
    GROUP BY rid, attempt
),
most AS (
    SELECT chosen.inside, by_cause.cause, by_culprit.culprit
    FROM by_cause LEFT JOIN by_culprit USING (rid, attempt) JOIN chosen USING (rid, attempt)
),
culprits AS (
    SELECT rid AS culprit, any_value(tier) AS tier, any_value(prompt_tokens) AS prompt_tokens
    FROM memory.main.requests SEMI JOIN most ON rid = culprit
    GROUP BY rid
),
compared AS (
    SELECT
        inside,
        cause AS main_cause,
        coalesce(culprit::VARCHAR, '') AS culprit,
        CASE WHEN culprit IS NULL THEN '' ELSE coalesce(tier, 'unknown') END AS culprit_tier,
        CASE
            WHEN culprit IS NULL THEN ''
            WHEN prompt_tokens < 128 THEN '0-127'
            WHEN prompt_tokens < 512 THEN '128-511'
            WHEN prompt_tokens < 2048 THEN '512-2047'
            WHEN prompt_tokens < 8192 THEN '2048-8191'
            WHEN prompt_tokens < 32768 THEN '8192-32767'
            WHEN prompt_tokens IS NOT NULL THEN '32768-'
            ELSE 'unknown'
        END AS culprit_prompt
    FROM most LEFT JOIN culprits USING (culprit)
),
counted AS (
    SELECT
        attribute, word,
        count(*) FILTER (inside) AS inside,
        count(*) FILTER (NOT inside) AS outside,
        row_number() OVER (PARTITION BY attribute ORDER BY count(*) DESC, word) AS place
    FROM (UNPIVOT compared ON COLUMNS(* EXCLUDE (inside)) INTO NAME attribute VALUE word)
    GROUP BY attribute, word
)
SELECT
    attribute,
    CASE WHEN place <= 50 THEN word END AS word,
    sum(inside)::BIGINT AS inside,
    sum(outside)::BIGINT AS outside
FROM counted
GROUP BY ALL
ORDER BY ALL
