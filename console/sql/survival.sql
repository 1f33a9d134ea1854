-- For how long was each attempt that began watched, in ns, and did what is measured happen in that time? (SPEC F4)
-- Rejected attempts never began, and whoever was handed on to another worker goes on there. An open one is watched to the
-- end of the recording, others to the last known of them.
WITH lived AS (
    SELECT
        arrival,
        first_token,
        CASE status WHEN 'ok' THEN returned END AS answered,
        greatest(
            arrival, admitted, queued, first_scheduled, first_token, last_token, returned,
            CASE status WHEN 'open' THEN (SELECT max(t_end) FROM steps) END
        ) AS finish
    FROM requests
    ANTI JOIN handed_on USING (rid, arrival)
    WHERE status <> 'rejected'
)
SELECT 'ttft' AS measure, coalesce(first_token, finish) - arrival AS waited, first_token IS NOT NULL AS observed
FROM lived
UNION ALL
SELECT 'e2e', coalesce(answered, finish) - arrival, answered IS NOT NULL
FROM lived
ORDER BY measure, waited, observed
