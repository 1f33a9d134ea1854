-- How many attempts were answered inside each limit of an SLO and inside all of them, and what went into answering?
-- (SPEC D2) A limit that is NULL binds nobody. TPOT is compared without dividing; one token has no gap to be late in.
WITH judged AS (
    SELECT
        *,
        coalesce(first_token - arrival <= $ttft_ns::BIGINT, $ttft_ns IS NULL) AS ttft_ok,
        coalesce(
            (last_token - first_token)::HUGEINT <= $tpot_ns::HUGEINT * greatest(output_tokens - 1, 0),
            $tpot_ns IS NULL
        ) AS tpot_ok,
        coalesce(returned - arrival <= $e2e_ns::BIGINT, $e2e_ns IS NULL) AS e2e_ok
    FROM requests
    WHERE status = 'ok'
)
SELECT
    count(*) AS ok,
    count(*) FILTER (ttft_ok) AS ttft,
    count(*) FILTER (tpot_ok) AS tpot,
    count(*) FILTER (e2e_ok) AS e2e,
    count(*) FILTER (ttft_ok AND tpot_ok AND e2e_ok) AS inside,
    coalesce(sum(returned - arrival), 0)::BIGINT AS e2e_ns,
    coalesce(sum(last_token - first_scheduled), 0)::BIGINT AS service_ns,
    coalesce(sum(preemptions), 0)::BIGINT AS preemptions,
    (SELECT max(arrival) - min(arrival) FROM requests) AS arrivals_ns
FROM judged
