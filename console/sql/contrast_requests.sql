-- What was each of the chosen attempts? Columns are attributes: numbers as they are compared, times in µs, arrival in
-- thousandths of the run; a number that names something is a word. `chosen` holds `rid, attempt, inside` of those that are
-- compared.
WITH began AS (SELECT min(arrival) AS t, greatest(max(arrival) - min(arrival), 1) AS ns FROM memory.main.requests)
SELECT
    inside,
    status, tier, tenant, model, model_version, worker::VARCHAR AS worker, reason, http_status::VARCHAR AS http_status,
    (arrival - began.t) * 1000 // began.ns AS arrival,
    attempt,
    (retry_of IS NOT NULL)::BIGINT AS retry_of,
    prompt_tokens, cached_tokens, prefix_tokens, max_tokens, output_tokens, preemptions, recomputed_tokens,
    retry_after_ms, queue_depth, queued_tokens, running, kv_used,
    (deadline - arrival) // 1000 AS deadline,
    (ingest_time - event_time) // 1000 AS staleness,
    device_ns // 1000 AS device_ns
FROM requests JOIN chosen USING (rid, attempt), began
