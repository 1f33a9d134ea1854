-- How many of the chosen attempts and of the others have each word? For every column of words; a number that names
-- something is a word too. What is not recorded is the empty word. Words beyond the most frequent are NULL together.
-- `chosen` holds `rid, attempt, inside` of those that are compared.
WITH compared AS (
    SELECT
        inside,
        coalesce(status, '') AS status,
        coalesce(tier, '') AS tier,
        coalesce(tenant, '') AS tenant,
        coalesce(model, '') AS model,
        coalesce(model_version, '') AS model_version,
        coalesce(worker::VARCHAR, '') AS worker,
        coalesce(reason, '') AS reason,
        coalesce(http_status::VARCHAR, '') AS http_status
    FROM requests JOIN chosen USING (rid, attempt)
),
counted AS (
    SELECT
        attribute, word,
        count(*) FILTER (inside) AS inside,
        count(*) FILTER (NOT inside) AS outside,
        row_number() OVER (PARTITION BY attribute ORDER BY count(*) DESC, word) AS place
    FROM (UNPIVOT compared ON COLUMNS(* EXCLUDE (inside)) INTO NAME attribute VALUE word)
    GROUP BY attribute, word
)
SELECT
    attribute,
    CASE WHEN place <= 50 THEN word END AS word,
    sum(inside)::BIGINT AS inside,
    sum(outside)::BIGINT AS outside
FROM counted
GROUP BY ALL
ORDER BY ALL
