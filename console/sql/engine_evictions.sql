-- Who lost its KV blocks to whom in a stretch, the most tokens lost first? `pairs` says how many rows there are in all.
-- Victims are those under the filter; who evicted them may be anybody.
WITH lost AS MATERIALIZED (
    SELECT *
    FROM events
    WHERE kind = 'preempted' AND t BETWEEN $since AND $until AND ($worker::BIGINT IS NULL OR worker = $worker)
),
-- Few were preempted, and many may be under the filter.
ours AS MATERIALIZED (SELECT rid FROM requests WHERE rid IN (SELECT rid FROM lost)),
worst AS (
    SELECT
        rid AS victim,
        other_rid AS culprit,
        count(*) AS times,
        coalesce(sum(lost_tokens), 0)::BIGINT AS lost_tokens,
        coalesce(sum(freed_blocks), 0)::BIGINT AS freed_blocks,
        min(t) AS first_t,
        max(t) AS last_t,
        count(*) OVER () AS pairs
    FROM lost
    WHERE rid IN (SELECT rid FROM ours)
    GROUP BY rid, other_rid
    ORDER BY lost_tokens DESC, victim, culprit
    LIMIT $most
),
named AS (
    SELECT rid, any_value(request_id) AS request_id
    FROM memory.main.requests
    WHERE rid IN (SELECT victim FROM worst UNION ALL SELECT culprit FROM worst)
    GROUP BY rid
)
SELECT worst.*, victims.request_id AS victim_id, culprits.request_id AS culprit_id
FROM worst
LEFT JOIN named AS victims ON victims.rid = worst.victim
LEFT JOIN named AS culprits ON culprits.rid = worst.culprit
ORDER BY lost_tokens DESC, victim, culprit
