-- To what did one attempt lose its time, and to whom? Largest first; `culprit` is the request that caused it, if one did.
SELECT causes.cause, causes.root, sum(causes.ns)::BIGINT AS ns, bool_and(causes.measured) AS measured,
       causes.culprit, any_value(culprits.request_id) AS culprit_id
FROM causes
LEFT JOIN (SELECT DISTINCT ON (rid) rid, request_id FROM requests ORDER BY rid, attempt) AS culprits
    ON culprits.rid = causes.culprit
WHERE causes.rid = $rid AND causes.attempt = $attempt
GROUP BY causes.cause, causes.root, causes.culprit
ORDER BY ns DESC, causes.cause, causes.root, causes.culprit
