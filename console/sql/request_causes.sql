-- To what did one attempt lose its time, and to whom? Largest first; `culprit` is the request that caused it, if one did.
WITH own AS (
    SELECT cause, root, culprit, sum(ns)::BIGINT AS ns, bool_and(measured) AS measured
    FROM causes
    WHERE rid = $rid AND attempt = $attempt
    GROUP BY cause, root, culprit
),
names AS (SELECT DISTINCT ON (rid) rid, request_id FROM requests SEMI JOIN own ON own.culprit = requests.rid)
SELECT own.cause, own.root, own.ns, own.measured, own.culprit, names.request_id AS culprit_id
FROM own
LEFT JOIN names ON names.rid = own.culprit
ORDER BY own.ns DESC, own.cause, own.root, own.culprit
