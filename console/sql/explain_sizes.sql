-- How many tokens of a prompt are not cached, in the middle of all requests that came?
SELECT quantile_disc(prompt_tokens - coalesce(cached_tokens, 0), 0.5) AS computed_p50
FROM memory.main.requests
