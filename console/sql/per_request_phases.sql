-- How long was each request in each phase, in ns? Its last attempt only, as in `per_request`.
SELECT rid, name, sum("end" - start)::BIGINT AS ns
FROM (SELECT * FROM spans QUALIFY attempt = max(attempt) OVER (PARTITION BY rid))
GROUP BY rid, name
ORDER BY rid, name
