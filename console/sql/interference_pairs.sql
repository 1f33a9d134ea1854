-- Which requests took most of which others' time, in ns? The $top pairs, each with its causes, largest first. Victims are
-- answered requests, under the filter (SPEC F2).
WITH blamed AS NOT MATERIALIZED (
    SELECT rid, attempt, culprit, cause, ns
    FROM causes SEMI JOIN (FROM latency WHERE status = 'ok' AND e2e_ns IS NOT NULL) AS answered USING (rid, attempt)
    WHERE culprit IS NOT NULL
),
pairs AS (
    SELECT rid, attempt, culprit, sum(ns)::BIGINT AS ns
    FROM blamed
    GROUP BY ALL
    ORDER BY ns DESC, rid, attempt, culprit
    LIMIT $top
),
by_cause AS (
    SELECT rid, attempt, culprit, cause, sum(ns)::BIGINT AS ns
    FROM blamed SEMI JOIN pairs USING (rid, attempt, culprit)
    GROUP BY ALL
),
named AS (
    SELECT rid, any_value(request_id) AS request_id, any_value(prompt_tokens) AS prompt_tokens
    FROM memory.main.requests
    SEMI JOIN (SELECT rid FROM pairs UNION SELECT culprit FROM pairs) AS met USING (rid)
    GROUP BY rid
)
SELECT
    pairs.rid, pairs.attempt, victims.request_id AS request_id,
    pairs.culprit, culprits.request_id AS culprit_id, culprits.prompt_tokens AS culprit_prompt_tokens,
    pairs.ns,
    list({'cause': by_cause.cause, 'ns': by_cause.ns} ORDER BY by_cause.ns DESC, by_cause.cause) AS causes
FROM pairs
JOIN by_cause USING (rid, attempt, culprit)
LEFT JOIN named AS victims ON victims.rid = pairs.rid
LEFT JOIN named AS culprits ON culprits.rid = pairs.culprit
GROUP BY ALL
ORDER BY pairs.ns DESC, pairs.rid, pairs.attempt, pairs.culprit
