-- How much did each request lose to each cause, in ns? Its last attempt only, as in `per_request`.
SELECT rid, cause AS name, sum(ns)::BIGINT AS ns
FROM (
    SELECT rid, attempt, cause, ns FROM causes SEMI JOIN requests USING (rid, attempt)
    QUALIFY attempt = max(attempt) OVER (PARTITION BY rid)
)
GROUP BY rid, cause
ORDER BY rid, cause
