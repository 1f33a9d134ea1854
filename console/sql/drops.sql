-- Which records are missing? One row for each gap the recorder found: when, whose, of which table, how many.
SELECT t, producer, table_name, lost
FROM recorder
WHERE lost > 0
ORDER BY t, producer, table_name
