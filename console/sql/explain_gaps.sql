-- At what distances do attempts come, in ns? How many came, and of the distances over a tenth of the mean, which leaves out
-- those inside a burst: how many, their mean and their standard deviation.
WITH distances AS (
    SELECT arrival - lag(arrival) OVER (ORDER BY arrival) AS gap FROM memory.main.requests WHERE arrival IS NOT NULL
)
SELECT
    (SELECT count(*) FROM distances) AS came,
    count(*) AS n,
    avg(gap) AS mean_ns,
    stddev_pop(gap) AS deviation_ns
FROM distances
WHERE gap > (SELECT avg(gap) FROM distances) / 10
