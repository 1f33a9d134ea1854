-- How many of the chosen attempts and of the others spent how much time in each phase and cause, in µs, and which share of
-- their E2E is that, in thousandths? Values from 512 on are counted together where they differ by less than 1 %. Those with
-- none of it are not in the answer; `compared` has all with an E2E. `chosen` holds `rid, attempt, inside` of those that are
-- compared.
WITH lived AS (
    SELECT rid, attempt, e2e_ns, inside
    FROM (SELECT rid, attempt, e2e_ns FROM latency WHERE e2e_ns > 0) AS measured JOIN chosen USING (rid, attempt)
),
parts AS (
    SELECT 'phase' AS kind, name, any_value(inside) AS inside, any_value(e2e_ns) AS e2e_ns, sum("end" - start) AS ns
    FROM spans JOIN lived USING (rid, attempt)
    GROUP BY rid, attempt, name
    UNION ALL
    SELECT 'cause', cause, any_value(inside), any_value(e2e_ns), sum(ns)
    FROM causes JOIN lived USING (rid, attempt)
    GROUP BY rid, attempt, cause
),
measured AS (
    SELECT kind, name, 'us' AS unit, (ns // 1000)::BIGINT AS value, inside FROM parts
    UNION ALL
    SELECT kind, name, 'permille', (ns * 1000 // e2e_ns)::BIGINT, inside FROM parts
    UNION ALL
    SELECT 'compared', '', '', 0, inside FROM lived
)
SELECT
    kind, name, unit,
    min(value) AS value,
    count(*) FILTER (inside) AS inside,
    count(*) FILTER (NOT inside) AS outside
FROM measured
GROUP BY
    kind, name, unit,
    CASE WHEN abs(value) < 512 THEN value ELSE sign(value) * (512 + floor(100 * ln(abs(value) / 512)))::BIGINT END
ORDER BY kind, name, unit, value
