-- Where one attempt's time went: one row a cause, with what is behind it. `culprit` is the request with the most of it.
WITH of_request AS (SELECT * FROM causes WHERE rid = $rid AND attempt = $attempt),
blamed AS (SELECT cause, culprit, sum(ns) AS ns FROM of_request GROUP BY ALL),
roots AS (SELECT cause, root, sum(ns) AS ns FROM of_request WHERE root IS NOT NULL GROUP BY ALL)
SELECT
    cause,
    sum(ns)::BIGINT AS ns,
    bool_and(measured) AS measured,
    (SELECT arg_max(culprit, b.ns) FROM blamed AS b WHERE b.cause = c.cause AND culprit IS NOT NULL) AS culprit,
    (SELECT max(b.ns)::BIGINT FROM blamed AS b WHERE b.cause = c.cause AND culprit IS NOT NULL) AS culprit_ns,
    (SELECT count(*) FROM blamed AS b WHERE b.cause = c.cause AND culprit IS NOT NULL) AS culprits,
    (SELECT arg_max(root, r.ns) FROM roots AS r WHERE r.cause = c.cause) AS root
FROM of_request AS c
GROUP BY cause
ORDER BY cause
