-- When was a worker held up while one attempt lived there?
SELECT t_start, t_end, source, device, kind, rid, detail
FROM stalls
WHERE source = 'worker' AND device = $worker AND t_end > $since AND t_start < $until
ORDER BY t_start, t_end
