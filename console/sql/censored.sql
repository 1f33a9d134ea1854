-- How many requests began and got no answer, so that the percentiles of the answered ones are lower bounds? (SPEC E5, F4)
-- A rejected one never began: it is counted among the states and bounds nothing. Nor does an attempt that was handed on
-- to another worker: whoever goes on with it came at the same instant.
SELECT count(*) AS n
FROM requests
ANTI JOIN handed_on USING (rid, arrival)
WHERE status IN ('open', 'expired', 'cancelled', 'failed')
