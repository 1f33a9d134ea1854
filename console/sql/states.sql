-- How many requests stand or ended in each state? (SPEC F4; states without any are left to the reader) An attempt that was
-- handed on to another worker is no end of its request: whoever goes on with it came at the same instant.
SELECT status, count(*) AS n
FROM requests
ANTI JOIN handed_on USING (rid, arrival)
GROUP BY status
ORDER BY n DESC, status
