-- Which requests took most of the time of all others together, in ns? The $top culprits, each with the causes it stands
-- behind and how many attempts it held up; of one cause only, where $cause names one. Victims are answered requests,
-- under the filter (SPEC F2). `whole_ns` is what all culprits took.
WITH blamed AS NOT MATERIALIZED (
    SELECT culprit, cause, rid, attempt, ns
    FROM causes SEMI JOIN (FROM latency WHERE status = 'ok' AND e2e_ns IS NOT NULL) AS answered USING (rid, attempt)
    WHERE culprit IS NOT NULL AND coalesce(cause = $cause::VARCHAR, true)
),
most AS (
    SELECT culprit, sum(ns)::BIGINT AS ns, sum(sum(ns)) OVER ()::BIGINT AS whole_ns
    FROM blamed
    GROUP BY culprit
    ORDER BY ns DESC, culprit
    LIMIT $top
),
theirs AS MATERIALIZED (FROM blamed SEMI JOIN most USING (culprit)),
by_cause AS (SELECT culprit, cause, sum(ns)::BIGINT AS ns FROM theirs GROUP BY ALL),
held_up AS (SELECT culprit, count(DISTINCT (rid, attempt)) AS victims FROM theirs GROUP BY culprit),
named AS (
    SELECT rid AS culprit, any_value(request_id) AS culprit_id, any_value(tier) AS tier,
           any_value(prompt_tokens) AS prompt_tokens
    FROM memory.main.requests SEMI JOIN most ON rid = culprit
    GROUP BY rid
)
SELECT
    most.culprit, culprit_id, tier, prompt_tokens, most.ns, whole_ns, victims,
    list({'cause': by_cause.cause, 'ns': by_cause.ns} ORDER BY by_cause.ns DESC, by_cause.cause) AS causes
FROM most
JOIN held_up USING (culprit)
JOIN by_cause USING (culprit)
LEFT JOIN named USING (culprit)
GROUP BY ALL
ORDER BY most.ns DESC, most.culprit
