-- How many of the chosen attempts and of the others spent which share of their E2E in each phase and cause, in thousandths?
-- Those with none of it are not in the answer; `compared` is the row with all that have an E2E. `chosen` holds
-- `rid, attempt, inside` of those that are compared.
WITH lived AS (
    SELECT rid, attempt, e2e_ns, inside
    FROM (SELECT rid, attempt, e2e_ns FROM latency WHERE e2e_ns > 0) AS measured JOIN chosen USING (rid, attempt)
),
parts AS (
    SELECT 'phase' AS kind, name, any_value(inside) AS inside, sum("end" - start) * 1000 // any_value(e2e_ns) AS value
    FROM spans JOIN lived USING (rid, attempt)
    GROUP BY rid, attempt, name
    UNION ALL
    SELECT 'cause', cause, any_value(inside), sum(ns) * 1000 // any_value(e2e_ns)
    FROM causes JOIN lived USING (rid, attempt)
    GROUP BY rid, attempt, cause
    UNION ALL
    SELECT 'compared', '', inside, 1000 FROM lived
)
SELECT
    kind, name, value::BIGINT AS value,
    count(*) FILTER (inside) AS inside,
    count(*) FILTER (NOT inside) AS outside
FROM parts
GROUP BY ALL
ORDER BY ALL
