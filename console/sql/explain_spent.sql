-- To which causes and roots did anybody lose time, whatever the filter?
SELECT DISTINCT cause, coalesce(root, '') AS root FROM memory.main.causes ORDER BY ALL
