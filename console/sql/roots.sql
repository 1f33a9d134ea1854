-- What kept the head of the queue waiting while the answered requests waited, in ns? Being behind somebody is a
-- proximate cause; the root is why that somebody was not started (SPEC F2).
SELECT root, sum(ns)::BIGINT AS ns, count(DISTINCT (causes.rid, causes.attempt)) AS requests
FROM causes
JOIN requests ON requests.rid = causes.rid AND requests.attempt = causes.attempt AND requests.status = 'ok'
WHERE root IS NOT NULL AND root <> '' AND cause LIKE 'QUEUE/%'
GROUP BY root
ORDER BY ns DESC, root
