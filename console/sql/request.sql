-- What is known of one attempt? Its row, and the measures.
SELECT requests.*, latency.queue_ns, latency.ttft_ns, latency.tpot_ns, latency.e2e_ns, latency.incomplete
FROM requests
JOIN latency USING (rid, attempt)
WHERE rid = $rid AND attempt = $attempt
