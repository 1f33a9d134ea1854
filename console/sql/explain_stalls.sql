-- What held processes up? By kind: how often, how long in all (ns), and of the longest how long, when and where it was.
WITH held AS (SELECT * FROM stalls WHERE t_end > t_start),
longest AS (
    SELECT DISTINCT ON (kind)
        kind, t_end - t_start AS longest_ns, t_start AS longest_at, source, device, detail
    FROM held
    ORDER BY kind, longest_ns DESC, t_start
),
sums AS (SELECT kind, count(*) AS n, sum(t_end - t_start)::BIGINT AS ns FROM held GROUP BY kind)
SELECT
    kind, coalesce(n, 0) AS n, coalesce(ns, 0) AS ns, longest_ns, longest_at, source, device, detail
FROM (VALUES ('gc'), ('loop'), ('tokenise'), ('warmup')) AS kinds(kind)
LEFT JOIN sums USING (kind)
LEFT JOIN longest USING (kind)
ORDER BY ns DESC, kind
