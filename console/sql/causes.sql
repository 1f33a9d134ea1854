-- To which causes did the answered requests lose their time, in ns? `requests` lived through it; `measured` is false
-- where a part of it is modelled. What no stamp names is the row UNNAMED (SPEC F1).
SELECT
    cause,
    sum(ns)::BIGINT AS ns,
    count(DISTINCT (causes.rid, causes.attempt)) AS requests,
    bool_and(measured) AS measured
FROM causes
JOIN requests ON requests.rid = causes.rid AND requests.attempt = causes.attempt AND requests.status = 'ok'
GROUP BY cause
ORDER BY ns DESC, cause
