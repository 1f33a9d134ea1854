-- For how long, in ns between the first and the last arrival, were so many attempts in flight, and how many arrivals made it so
-- many? One row a level. Whoever came is in flight until its client had its answer, or still waits for it.
WITH lives AS (
    SELECT
        arrival,
        coalesce(
            returned,
            CASE WHEN status <> 'open'
                THEN greatest(arrival, admitted, queued, first_scheduled, first_token, last_token) END
        ) AS ended
    FROM memory.main.requests
    WHERE arrival IS NOT NULL
),
turns AS (
    SELECT arrival AS t, 1 AS more FROM lives
    UNION ALL
    SELECT ended, -1 FROM lives WHERE ended IS NOT NULL
),
levels AS (
    SELECT t, more, sum(more) OVER until_now AS level, lead(t) OVER until_now - t AS lasted
    FROM turns
    WINDOW until_now AS (ORDER BY t, more ROWS UNBOUNDED PRECEDING)
)
SELECT
    level::BIGINT AS level,
    coalesce(sum(CASE WHEN t < (SELECT max(arrival) FROM lives) THEN lasted END), 0)::BIGINT AS ns,
    count(*) FILTER (more > 0) AS came
FROM levels
WHERE level >= 0
GROUP BY level
ORDER BY level
