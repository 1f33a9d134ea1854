-- In which steps were the prompts of these requests computed? $rids is a list of numbers; the worker that did most of it.
SELECT rid, worker, min(step) AS first_step, max(step) AS last_step, sum(tokens)::BIGINT AS tokens
FROM slices
SEMI JOIN (SELECT unnest($rids::BIGINT[]) AS rid) USING (rid)
WHERE role <> 'decode'
GROUP BY rid, worker
QUALIFY row_number() OVER (PARTITION BY rid ORDER BY sum(tokens) DESC, worker) = 1
ORDER BY rid
