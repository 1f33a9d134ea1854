-- How much work of others did each of the chosen requests meet while it decoded? Only those that decoded. `chosen` holds
-- `rid, attempt, inside` of those that are compared, `met` what they met (`console.contrast.meeting`).
SELECT inside, met_prefill_tokens, met_most_prefill_tokens, met_decodes
FROM met JOIN (SELECT rid, any_value(inside) AS inside FROM chosen GROUP BY rid) AS one USING (rid)
