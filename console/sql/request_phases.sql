-- Through which phases did one attempt go, in order?
SELECT name, start, "end", "end" - start AS ns, worker, first_step, last_step
FROM spans
WHERE rid = $rid AND attempt = $attempt
ORDER BY start, "end"
