-- In each of `$bins` equal parts of a stretch: how often was somebody preempted, with how many tokens lost, and how many
-- KV blocks came back from whom has ended or been preempted? Part -1 is all that was before the stretch. Parts in which
-- neither happened may be left out.
SELECT
    CASE WHEN t < $since THEN -1 ELSE least((t - $since) * $bins // ($until - $since), $bins - 1) END AS bin,
    count(*) FILTER (kind = 'preempted') AS preemptions,
    coalesce(sum(lost_tokens) FILTER (kind = 'preempted'), 0)::BIGINT AS lost_tokens,
    coalesce(sum(freed_blocks), 0)::BIGINT AS freed_blocks
FROM events
WHERE t <= $until AND ($worker::BIGINT IS NULL OR worker = $worker) AND (kind = 'preempted' OR freed_blocks > 0)
GROUP BY bin
ORDER BY bin
