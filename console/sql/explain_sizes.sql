-- How much do requests ask for in the middle? Of all that came, answered or not, and of what was not cached.
SELECT
    count(*) AS n,
    quantile_disc(prompt_tokens, 0.5) AS prompt_p50,
    quantile_disc(prompt_tokens - coalesce(cached_tokens, 0), 0.5) AS computed_p50,
    quantile_disc(output_tokens, 0.5) FILTER (status = 'ok') AS output_p50
FROM memory.main.requests
