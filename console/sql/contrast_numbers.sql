-- How many of the chosen attempts and of the others have each value? For every number of a request; times in µs, arrival
-- in thousandths of the run. Values from 512 on are counted together where they differ by less than 1 %: `value` is the
-- least of them. `chosen` holds `rid, attempt, inside` of those that are compared.
WITH began AS (SELECT min(arrival) AS t, greatest(max(arrival) - min(arrival), 1) AS ns FROM memory.main.requests),
compared AS (
    SELECT
        inside,
        (arrival - began.t) * 1000 // began.ns AS arrival,
        attempt,
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
    FROM requests
    JOIN (SELECT rid, attempt, queue_ns, ttft_ns, tpot_ns, e2e_ns FROM latency) AS measured USING (rid, attempt)
    JOIN chosen USING (rid, attempt), began
)
SELECT
    attribute,
    min(value) AS value,
    count(*) FILTER (inside) AS inside,
    count(*) FILTER (NOT inside) AS outside
FROM (UNPIVOT compared ON COLUMNS(* EXCLUDE (inside)) INTO NAME attribute VALUE value)
GROUP BY
    attribute,
    CASE WHEN abs(value) < 512 THEN value ELSE sign(value) * (512 + floor(100 * ln(abs(value) / 512)))::BIGINT END
ORDER BY attribute, value
