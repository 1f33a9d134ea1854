-- Who took whose time, by class of request, in ns? Victims are the answered requests, under the filter; culprits are any
-- of the run. One row for two classes and a cause; no culprit means nobody, and all rows sum to the budget (SPEC F2).
WITH classed AS (
    SELECT
        rid, attempt,
        coalesce(CASE $by
            WHEN 'tier' THEN tier
            WHEN 'tenant' THEN tenant
            WHEN 'model' THEN model
            ELSE CASE
                WHEN prompt_tokens < 128 THEN '0-127'
                WHEN prompt_tokens < 512 THEN '128-511'
                WHEN prompt_tokens < 2048 THEN '512-2047'
                WHEN prompt_tokens < 8192 THEN '2048-8191'
                WHEN prompt_tokens < 32768 THEN '8192-32767'
                WHEN prompt_tokens IS NOT NULL THEN '32768-'
            END
        END, '') AS class
    FROM memory.main.requests
),
victims AS (
    SELECT rid, attempt, class
    FROM classed SEMI JOIN (FROM latency WHERE status = 'ok' AND e2e_ns IS NOT NULL) AS answered USING (rid, attempt)
),
lost AS (
    SELECT class AS victims, cause, culprit, sum(ns)::BIGINT AS ns
    FROM victims JOIN causes USING (rid, attempt)
    GROUP BY ALL
),
culprits AS (
    SELECT rid AS culprit, any_value(class) AS class
    FROM classed SEMI JOIN lost ON rid = culprit
    GROUP BY rid
)
SELECT
    victims,
    CASE WHEN lost.culprit IS NOT NULL THEN coalesce(culprits.class, 'unknown') END AS culprits,
    cause,
    sum(ns)::BIGINT AS ns
FROM lost LEFT JOIN culprits ON culprits.culprit = lost.culprit
GROUP BY ALL
ORDER BY ALL
