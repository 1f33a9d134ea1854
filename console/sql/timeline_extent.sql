-- The stretch that the timeline shows: the life of the requests, or of the passes where there was no request.
WITH traffic AS (
    SELECT
        min(arrival) AS low,
        greatest(
            max(arrival), max(admitted), max(queued), max(first_scheduled),
            max(first_token), max(last_token), max(returned)
        ) AS high,
        max(arrival) FILTER (status = 'open') AS open_since
    FROM requests
),
work AS (SELECT min(t_sched) AS low, max(t_end) AS high, max(t_done) FILTER (kind <> 'idle') AS last_work FROM steps),
changes AS (SELECT max(t) AS high FROM events)
SELECT
    coalesce(traffic.low, work.low, 0) AS low,
    coalesce(
        -- Somebody still waits: everything up to the last thing recorded is part of its life.
        CASE WHEN traffic.open_since IS NOT NULL THEN greatest(traffic.high, work.high, changes.high) END,
        greatest(traffic.high, work.last_work),
        work.high,
        0
    ) AS high
FROM traffic, work, changes
