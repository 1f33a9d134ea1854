-- In which steps $first to $last of a worker did one request take part? By role: how many, the first and the last,
-- tokens computed, blocks given.
SELECT worker, role, count(*) AS steps, min(step) AS first_step, max(step) AS last_step,
       sum(tokens)::BIGINT AS tokens, sum(cached)::BIGINT AS cached, sum(new_blocks)::BIGINT AS new_blocks
FROM slices
WHERE rid = $rid AND worker = $worker AND step BETWEEN $first AND $last
GROUP BY worker, role
ORDER BY first_step, worker, role
