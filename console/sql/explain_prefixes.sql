-- How much of each prompt was in the cache, in the order of arrival?
SELECT arrival, rid, prompt_tokens, coalesce(cached_tokens, 0) AS cached_tokens
FROM memory.main.requests
WHERE status = 'ok' AND prompt_tokens > 0
ORDER BY arrival, rid
