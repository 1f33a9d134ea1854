-- What was each of the chosen attempts, and how long did it take? Columns are attributes: numbers as they are compared, times
-- in µs, arrival in thousandths of the run; a number that names something is a word. `drawn` holds those that are compared:
-- the columns of `requests`, the measures of `latency`, and `inside`.
WITH began AS (SELECT min(arrival) AS t, greatest(max(arrival) - min(arrival), 1) AS ns FROM memory.main.requests)
SELECT
    rid, attempt, inside,
    status, tier, tenant, model, model_version, worker::VARCHAR AS worker, reason, http_status::VARCHAR AS http_status,
    (arrival - began.t) * 1000 // began.ns AS arrival,
    (retry_of IS NOT NULL)::BIGINT AS retry_of,
    prompt_tokens, cached_tokens, prefix_tokens, max_tokens, output_tokens, preemptions, recomputed_tokens,
    retry_after_ms, queue_depth, queued_tokens, running, kv_used,
    (deadline - arrival) // 1000 AS deadline,
    (ingest_time - event_time) // 1000 AS staleness,
    device_ns // 1000 AS device_ns,
    queue_ns // 1000 AS queue,
    ttft_ns // 1000 AS ttft,
    floor(tpot_ns / 1000)::BIGINT AS tpot,
    e2e_ns // 1000 AS e2e
FROM drawn, began
