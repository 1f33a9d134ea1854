-- How many attempts stand or ended in each state? (SPEC F4; states without any are left to the reader)
SELECT status, count(*) AS n
FROM requests
GROUP BY status
ORDER BY n DESC, status
