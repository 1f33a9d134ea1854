-- How many of the chosen attempts and of the others met how much work of others while they decoded? Per request: prefill
-- tokens and other decodes in its passes on average, and the most prefill tokens in one of them. Values from 512 on are
-- counted together where they differ by less than 1 %. `chosen` holds `rid, attempt, inside` of those that are compared.
WITH met AS (
    SELECT
        rid,
        round(avg(coalesce(sum_prefill_tokens, 0)))::BIGINT AS met_prefill_tokens,
        max(coalesce(sum_prefill_tokens, 0)) AS met_most_prefill_tokens,
        round(avg(coalesce(num_decode_requests, 1) - 1))::BIGINT AS met_decodes
    FROM slices JOIN steps USING (worker, step)
    WHERE role = 'decode'
    GROUP BY rid
),
compared AS (
    SELECT inside, met_prefill_tokens, met_most_prefill_tokens, met_decodes
    FROM met JOIN (SELECT rid, any_value(inside) AS inside FROM chosen GROUP BY rid) AS one USING (rid)
)
SELECT
    attribute,
    min(value) AS value,
    count(*) FILTER (inside) AS inside,
    count(*) FILTER (NOT inside) AS outside
FROM (UNPIVOT compared ON COLUMNS(* EXCLUDE (inside)) INTO NAME attribute VALUE value)
GROUP BY
    attribute,
    CASE WHEN value < 512 THEN value ELSE 512 + floor(100 * ln(value / 512))::BIGINT END
ORDER BY attribute, value
