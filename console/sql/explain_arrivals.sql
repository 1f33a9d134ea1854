-- When did each attempt come, and until when did its client wait for it? NULL where it still waits.
SELECT
    arrival,
    coalesce(
        returned,
        CASE WHEN status <> 'open'
            THEN greatest(arrival, admitted, queued, first_scheduled, first_token, last_token) END
    ) AS ended
FROM memory.main.requests
WHERE arrival IS NOT NULL
ORDER BY arrival, ended
