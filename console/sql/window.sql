-- Over which time is throughput counted, and what came out in it? From the first arrival to the last stamp of a
-- request; while requests are open, to the end of the last pass, for they may be in it.
SELECT
    min(arrival) AS began,
    greatest(
        max(arrival),
        max(returned),
        CASE WHEN count(*) FILTER (status = 'open') > 0 THEN (SELECT max(t_end) FROM steps) END
    ) AS ended,
    count(*) FILTER (status = 'ok') AS ok,
    coalesce(sum(output_tokens) FILTER (status <> 'open'), 0)::BIGINT AS output_tokens
FROM requests
