-- Who took whose time, by class of request, in ns? Victims are the answered requests, under the filter; culprits are any
-- of the run. One row for two classes and a cause; no culprit means nobody, and all rows sum to the budget (SPEC F2).
-- Only the causes with a culprit are looked at one by one: what nobody took is the rest of what there was of a cause. Where
-- nobody is to blame, no classes are looked up.
WITH blamed AS NOT MATERIALIZED (SELECT rid, attempt, cause, culprit, ns FROM causes WHERE culprit IS NOT NULL),
people AS NOT MATERIALIZED (
    SELECT true AS hit, rid, attempt, tier, tenant, model, prompt_tokens, COLUMNS('^[A-Z_/]+$')
    FROM attempt_times
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
    UNION ALL BY NAME
    SELECT false AS hit, rid, attempt, tier, tenant, model, prompt_tokens
    FROM memory.main.requests
),
classed AS NOT MATERIALIZED (
    SELECT
        * EXCLUDE (tier, tenant, model, prompt_tokens),
        coalesce(CASE $by
            WHEN 'tier' THEN tier
            WHEN 'tenant' THEN tenant
            WHEN 'model' THEN model
            ELSE prompt_class(prompt_tokens)
        END, '') AS class
    FROM people
),
spent AS (
    SELECT class AS victims, sum(COLUMNS(* EXCLUDE (hit, rid, attempt, class)))::BIGINT
    FROM classed
    WHERE hit
    GROUP BY class
),
victims AS (SELECT rid, attempt, class FROM classed WHERE hit AND EXISTS (FROM blamed)),
culprits AS (
    SELECT rid AS culprit, any_value(class) AS class
    FROM classed
    WHERE NOT hit AND EXISTS (FROM blamed)
    GROUP BY rid
),
taken AS MATERIALIZED (
    SELECT victims.class AS victims, coalesce(culprits.class, 'unknown') AS culprits, cause, sum(ns)::BIGINT AS ns
    FROM blamed JOIN victims USING (rid, attempt) LEFT JOIN culprits USING (culprit)
    GROUP BY ALL
),
left_over AS (
    SELECT victims, NULL AS culprits, cause, sum(ns)::BIGINT AS ns
    FROM (
        FROM (UNPIVOT spent ON COLUMNS(* EXCLUDE victims) INTO NAME cause VALUE ns)
        UNION ALL
        SELECT victims, cause, -ns FROM taken
    )
    GROUP BY ALL
)
FROM taken
UNION ALL
FROM left_over WHERE ns <> 0
ORDER BY ALL
