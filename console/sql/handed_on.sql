-- How many attempts were handed on to another worker, as theirs was lost? (SPEC A7, C9) Whoever goes on with one came at
-- the same instant.
SELECT count(*) AS n
FROM requests
SEMI JOIN handed_on USING (rid, arrival)
