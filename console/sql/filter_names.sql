-- Which words can a filter ask this run for? For completion: the most frequent first.
WITH words AS (
    SELECT 'tier' AS field, tier AS name FROM requests
    UNION ALL
    SELECT 'tenant', tenant FROM requests
    UNION ALL
    SELECT 'model', model FROM requests
    UNION ALL
    SELECT 'model_version', model_version FROM requests
    UNION ALL
    SELECT 'worker', worker::VARCHAR FROM requests
    UNION ALL
    SELECT 'reason', reason FROM requests
    UNION ALL
    SELECT 'http_status', http_status::VARCHAR FROM requests
)
SELECT field, name, count(*) AS n
FROM words
WHERE name <> ''
GROUP BY field, name
QUALIFY row_number() OVER (PARTITION BY field ORDER BY n DESC, name) <= 50
ORDER BY field, n DESC, name
