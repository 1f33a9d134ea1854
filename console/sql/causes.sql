-- To which causes did the answered requests lose their time, in ns? `requests` lived through it; `measured` is false
-- where a part of it is modelled. What no stamp names is the row UNNAMED (SPEC F1).
WITH answered AS (
    SELECT * EXCLUDE (rid, attempt, status, arrival, e2e_ns) FROM cause_times WHERE status = 'ok'
),
summed AS (
    UNPIVOT (SELECT sum(COLUMNS(lambda name: NOT starts_with(name, 'root ')))::BIGINT FROM answered)
    ON COLUMNS(*) INTO NAME cause VALUE ns
),
counted AS (
    UNPIVOT (SELECT count(COLUMNS(lambda name: NOT starts_with(name, 'root '))) FROM answered)
    ON COLUMNS(*) INTO NAME cause VALUE requests
)
SELECT cause, ns, requests, cause NOT IN ('STALLED_BY_PREFILL', 'HOST_WARMUP') AS measured
FROM summed JOIN counted USING (cause)
ORDER BY ns DESC, cause
