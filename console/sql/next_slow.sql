-- Which is the next attempt in the order of arrival that took longer than $limit ns, or just as long where $at says so? $way is
-- 1, or -1 for the one before.
SELECT rid, attempt
FROM latency
WHERE (e2e_ns > $limit OR ($at AND e2e_ns = $limit)) AND (arrival, rid) <> ($arrival, $rid)
    AND ((arrival > $arrival OR (arrival = $arrival AND rid > $rid)) = ($way > 0))
ORDER BY $way * arrival, $way * rid
LIMIT 1
