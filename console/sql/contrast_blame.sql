-- To which request did each of the chosen attempts lose most of its time, of which tier is that, and how long is its prompt?
-- Only those that have a culprit. `chosen` holds `rid, attempt, inside` of those that are compared.
WITH lost AS (
    SELECT rid, attempt, any_value(inside) AS inside, culprit, sum(ns) AS ns
    FROM causes JOIN chosen USING (rid, attempt)
    WHERE culprit IS NOT NULL
    GROUP BY rid, attempt, culprit
),
most AS (
    SELECT any_value(inside) AS inside, arg_max(culprit, ns) AS culprit
    FROM lost
    GROUP BY rid, attempt
),
culprits AS (
    SELECT rid AS culprit, any_value(tier) AS tier, any_value(prompt_tokens) AS prompt_tokens
    FROM memory.main.requests SEMI JOIN most ON rid = culprit
    GROUP BY rid
)
SELECT
    inside,
    culprit::VARCHAR AS culprit,
    coalesce(tier, 'unknown') AS culprit_tier,
    coalesce(prompt_class(prompt_tokens), 'unknown') AS culprit_prompt
FROM most LEFT JOIN culprits USING (culprit)
