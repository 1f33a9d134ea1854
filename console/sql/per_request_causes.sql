-- How much did each attempt lose to each cause, in ns?
SELECT rid, attempt, cause, sum(ns)::BIGINT AS ns
FROM causes
GROUP BY rid, attempt, cause
ORDER BY rid, attempt, cause
