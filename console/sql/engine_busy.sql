-- For how many ns did each worker execute in each of `$bins` equal parts of a stretch? Parts in which it did not are left
-- out.
WITH executed AS (
    SELECT
        worker, t_exec, t_done,
        greatest((t_exec - $since) * $bins // ($until - $since), 0) AS first_bin,
        least((t_done - 1 - $since) * $bins // ($until - $since), $bins - 1) AS last_bin
    FROM steps
    WHERE kind <> 'idle' AND t_done > t_exec AND t_exec < $until AND t_done > $since
        AND ($worker::BIGINT IS NULL OR worker = $worker)
),
pieces AS (
    SELECT
        *,
        $since + (bin * ($until - $since) + $bins - 1) // $bins AS low,
        $since + ((bin + 1) * ($until - $since) + $bins - 1) // $bins AS high
    FROM (SELECT *, unnest(range(first_bin, last_bin + 1)) AS bin FROM executed)
)
SELECT worker, bin, sum(least(t_done, high) - greatest(t_exec, low))::BIGINT AS ns
FROM pieces
GROUP BY worker, bin
ORDER BY worker, bin
