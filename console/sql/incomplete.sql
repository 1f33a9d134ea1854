-- How many attempts lived while records were lost, so that something of them may be missing?
SELECT count(*) AS n
FROM latency
WHERE incomplete
