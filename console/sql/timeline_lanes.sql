-- One row a lane: an attempt with its stamps, in the order of arrival. `finish` ends the lane: the return where there
-- was one, the end of the recording while it is open, or else the last that is known of it.
WITH gone AS (
    SELECT rid, max(t) AS t
    FROM events
    WHERE
        kind IN ('finished', 'cancelled', 'failed', 'rejected')
        AND rid IN (SELECT rid FROM requests WHERE returned IS NULL AND status <> 'open')
    GROUP BY rid
)
SELECT
    r.rid, r.attempt, r.request_id, r.tier, r.worker, r.status, r.reason,
    r.arrival, r.queued, r.first_scheduled, r.first_token, r.last_token, r.returned,
    coalesce(
        r.returned,
        CASE WHEN r.status = 'open' THEN greatest(r.arrival, $high) END,
        greatest(r.arrival, r.admitted, r.queued, r.first_scheduled, r.first_token, r.last_token, gone.t)
    ) AS finish,
    r.prompt_tokens, r.output_tokens, r.cached_tokens, r.preemptions,
    r.first_token - r.arrival AS ttft,
    CASE WHEN r.output_tokens > 1 THEN (r.last_token - r.first_token) / (r.output_tokens - 1) END::BIGINT AS tpot,
    r.returned - r.arrival AS e2e
FROM requests AS r
LEFT JOIN gone USING (rid)
ORDER BY r.arrival NULLS FIRST, r.rid, r.attempt
