-- How long were attempts in each phase, in ns, whatever became of them? Only those that were in it count; nearest rank.
SELECT name, count(*) AS n, quantile_disc(ns, 0.5) AS p50, quantile_disc(ns, 0.99) AS p99
FROM (SELECT rid, attempt, name, sum("end" - start)::BIGINT AS ns FROM spans GROUP BY rid, attempt, name)
GROUP BY name
ORDER BY name
