-- How well did the recorder do? The last account of each ring, summed: records taken, records dropped, mean cost of one
-- record in ns weighted by records, and the instants up to which all that was taken is on disk, of the ring
-- that is behind and of the newest (SPEC F8).
WITH last_account AS (
    SELECT producer, table_name, max(events) AS events, max(drops) AS drops, max(bytes) AS bytes,
           arg_max(append_ns, t) AS append_ns, max(durable) AS durable
    FROM recorder
    GROUP BY producer, table_name
)
SELECT
    coalesce(sum(events), 0)::BIGINT AS events,
    coalesce(sum(drops), 0)::BIGINT AS drops,
    coalesce(sum(bytes), 0)::BIGINT AS bytes,
    sum(append_ns * events) / nullif(sum(events) FILTER (append_ns IS NOT NULL), 0) AS append_ns,
    min(durable) AS durable,
    max(durable) AS newest
FROM last_account
