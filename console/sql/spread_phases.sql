-- How do the phases of the answered requests vary together, in ns²? For every two of them the sum over all requests of
-- their product; E2E is one of them, and so is the constant 1, which gives counts and sums. Exact, so it is text.
WITH lived AS (SELECT rid, attempt, e2e_ns FROM latency WHERE status = 'ok' AND e2e_ns IS NOT NULL),
parts AS (
    SELECT rid, attempt, name, sum("end" - start)::HUGEINT AS x
    FROM lived JOIN spans USING (rid, attempt)
    GROUP BY ALL
    UNION ALL
    SELECT rid, attempt, 'E2E', e2e_ns FROM lived
    UNION ALL
    SELECT rid, attempt, '1', 1 FROM lived
)
SELECT a.name AS a, b.name AS b, sum(a.x * b.x)::VARCHAR AS product
FROM parts AS a JOIN parts AS b USING (rid, attempt)
WHERE a.name <= b.name
GROUP BY ALL
ORDER BY ALL
