-- What was read of one quantity of one kind of source in a stretch, in order? Of several devices the mean at each instant.
SELECT t, avg(value) AS value
FROM samples
WHERE source = $source AND name = $name AND t BETWEEN $since AND $until AND value IS NOT NULL
GROUP BY t
ORDER BY t
