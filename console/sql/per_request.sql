-- What did each request take by each measure, in ns? Its last attempt only: the one whose answer the client saw.
SELECT request_id, rid, attempt, status, arrival, queue_ns, ttft_ns, tpot_ns, e2e_ns
FROM latency
QUALIFY row_number() OVER (PARTITION BY request_id ORDER BY arrival DESC, attempt DESC, rid DESC) = 1
ORDER BY arrival, rid
