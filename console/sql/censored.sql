-- How many attempts began and got no answer, so that the percentiles of the answered ones are lower bounds? (SPEC E5, F4)
-- A rejected attempt never began: it is counted among the states and bounds nothing.
SELECT count(*) AS n
FROM requests
WHERE status IN ('open', 'expired', 'cancelled', 'failed')
