-- Which requests took most of which others' time, in ns? The $top pairs, each with its causes, largest first. Victims are
-- answered requests, under the filter (SPEC F2).
WITH blamed AS (
    SELECT rid, attempt, culprit, cause, sum(ns)::BIGINT AS ns
    FROM causes SEMI JOIN (FROM latency WHERE status = 'ok' AND e2e_ns IS NOT NULL) AS answered USING (rid, attempt)
    WHERE culprit IS NOT NULL
    GROUP BY ALL
),
pairs AS (
    SELECT rid, attempt, culprit, sum(ns)::BIGINT AS ns
    FROM blamed
    GROUP BY ALL
    ORDER BY ns DESC, rid, attempt, culprit
    LIMIT $top
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
    list({'cause': blamed.cause, 'ns': blamed.ns} ORDER BY blamed.ns DESC, blamed.cause) AS causes
FROM pairs
JOIN blamed USING (rid, attempt, culprit)
LEFT JOIN named AS victims ON victims.rid = pairs.rid
LEFT JOIN named AS culprits ON culprits.rid = pairs.culprit
GROUP BY ALL
ORDER BY pairs.ns DESC, pairs.rid, pairs.attempt, pairs.culprit
