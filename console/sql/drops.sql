-- Which records are missing? One row for each gap or damage: when, whose, of which table, how many at most.
SELECT since, until, producer, table_name, lost
FROM gaps
ORDER BY since, until, producer, table_name
