-- How much work of others did each of the chosen requests meet while it decoded? Prefill tokens and other decodes in its
-- passes on average, and the most prefill tokens in one of them. Only those that decoded. `chosen` holds `rid, attempt,
-- inside` of those that are compared.
SELECT
    any_value(inside) AS inside,
    round(avg(coalesce(sum_prefill_tokens, 0)))::BIGINT AS met_prefill_tokens,
    max(coalesce(sum_prefill_tokens, 0)) AS met_most_prefill_tokens,
    round(avg(coalesce(num_decode_requests, 1) - 1))::BIGINT AS met_decodes
FROM slices
JOIN (SELECT rid, any_value(inside) AS inside FROM chosen GROUP BY rid) AS one USING (rid)
JOIN steps USING (worker, step)
WHERE role = 'decode'
GROUP BY rid
