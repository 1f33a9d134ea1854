-- Which service classes are there, whatever the filter?
SELECT DISTINCT coalesce(tier, '') AS tier FROM memory.main.requests ORDER BY tier
