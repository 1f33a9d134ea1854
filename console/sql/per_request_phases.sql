-- How long was each attempt in each phase, in ns?
SELECT rid, attempt, name, sum("end" - start)::BIGINT AS ns
FROM spans
GROUP BY rid, attempt, name
ORDER BY rid, attempt, name
