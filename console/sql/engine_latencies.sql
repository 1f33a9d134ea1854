-- What did each answered request that came in a stretch take end to end, in ns?
SELECT e2e_ns
FROM latency
WHERE status = 'ok' AND e2e_ns IS NOT NULL AND arrival BETWEEN $since AND $until
    AND ($worker::BIGINT IS NULL OR worker = $worker)
