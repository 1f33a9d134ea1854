-- What did each answered request take by each measure, in ns? For curves over all of them: nothing is sampled.
SELECT queue_ns, ttft_ns, tpot_ns, e2e_ns
FROM latency
WHERE status = 'ok'
ORDER BY arrival, rid
