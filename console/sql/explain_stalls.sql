-- What held processes up? By kind: how often, how long in all and at most (ns), and where and when the longest was.
SELECT
    kinds.kind, count(t_start) AS n, coalesce(sum(t_end - t_start), 0)::BIGINT AS ns,
    max(t_end - t_start)::BIGINT AS longest_ns,
    arg_max(t_start, t_end - t_start) AS longest_at, arg_max(source, t_end - t_start) AS source,
    arg_max(device, t_end - t_start) AS device, arg_max(detail, t_end - t_start) AS detail,
    arg_max(rid, t_end - t_start) AS rid
FROM (VALUES ('gc'), ('loop'), ('tokenise'), ('warmup')) AS kinds(kind)
LEFT JOIN stalls ON stalls.kind = kinds.kind AND t_end > t_start
GROUP BY kinds.kind
ORDER BY ns DESC, kinds.kind
