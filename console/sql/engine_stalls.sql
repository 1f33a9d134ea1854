-- How often and how long could a process not do its work in a stretch, by what it was?
SELECT source, kind, count(*) AS n, sum(t_end - t_start)::BIGINT AS ns, max(t_end - t_start) AS max_ns
FROM stalls
WHERE t_start < $until AND t_end > $since
GROUP BY ALL
ORDER BY ns DESC, source, kind
