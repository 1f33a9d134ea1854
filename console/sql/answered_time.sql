-- How much time did all answered requests take together, end to end, in ns? The whole that causes are parts of (SPEC F1).
SELECT coalesce(sum(e2e_ns), 0)::BIGINT AS ns
FROM latency
WHERE status = 'ok'
