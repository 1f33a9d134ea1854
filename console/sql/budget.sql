-- How long was each part of an answered request's life, in ns, how many kept its limit, and who took longest beyond it?
-- The four parts sum to e2e (SPEC A4). TPOT is rounded up to a whole ns, so that comparing it is exact.
WITH lived AS (
    SELECT
        request_id,
        queued - arrival AS ingress,
        first_scheduled - queued AS waiting,
        last_token - first_scheduled AS execution,
        returned - last_token AS "return",
        first_token - arrival AS ttft,
        CASE WHEN output_tokens > 1
            THEN (last_token - first_token + output_tokens - 2) // (output_tokens - 1)
        END AS tpot,
        returned - arrival AS e2e
    FROM requests
    WHERE status = 'ok'
),
parts AS (
    UNPIVOT lived ON ingress, waiting, execution, "return", ttft, tpot, e2e INTO NAME part VALUE ns
),
judged AS (
    SELECT
        *,
        ns > CASE part
            WHEN 'ingress' THEN $ingress_ns::BIGINT
            WHEN 'waiting' THEN $waiting_ns::BIGINT
            WHEN 'execution' THEN $execution_ns::BIGINT
            WHEN 'return' THEN $return_ns::BIGINT
            WHEN 'ttft' THEN $ttft_ns::BIGINT
            WHEN 'tpot' THEN $tpot_ns::BIGINT
            ELSE $e2e_ns::BIGINT
        END AS over
    FROM parts
)
SELECT
    part,
    count(*) AS n,
    count(*) FILTER (NOT coalesce(over, false)) AS inside,
    quantile_disc(ns, 0.5) AS p50,
    quantile_disc(ns, 0.95) AS p95,
    quantile_disc(ns, 0.99) AS p99,
    max(ns) AS max,
    coalesce(list({'request_id': request_id, 'ns': ns} ORDER BY ns DESC, request_id) FILTER (over), [])[:3] AS worst
FROM judged
GROUP BY part
ORDER BY part
